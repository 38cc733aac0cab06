"""The client for asyncio. What it claims above all: the loop goes on."""
import asyncio
import contextlib
import gc
import time
import unittest

from scripted_router import PATIENCE_S, RouterTest, iq, spectra

import numpy as np

import penstock
from penstock import AsyncClient, Status
from penstock.wire import MessageType


class Heart:
    """Beats in the loop, and knows its longest pause."""

    def __init__(self):
        self.beats, self.longest_s = 0, 0.0

    async def beat(self):
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.002)
            now = time.monotonic()
            self.longest_s, last = max(self.longest_s, now - last), now
            self.beats += 1


@contextlib.asynccontextmanager
async def heartbeat():
    heart = Heart()
    beating = asyncio.ensure_future(heart.beat())
    try:
        yield heart
    finally:
        beating.cancel()


class Async(RouterTest):
    def run_async(self, what, greeting=None, **options):
        """Runs `what(client)` with a client that is connected."""
        async def main():
            options.setdefault("retry_after", 60)
            async with AsyncClient(self.router.url, connect_timeout=PATIENCE_S, **options) as client:
                return await what(client)
        running = self.aside(lambda: asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE_S)))
        self.router.welcome(self.router.expect(MessageType.HELLO), **(greeting or {}))
        return running

    def answer(self, count):
        for _ in range(count):
            self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())

    def test_submit_gives_the_result(self):
        running = self.run_async(lambda client: client.submit("spectrum", iq()))
        self.answer(1)
        np.testing.assert_array_equal(self.wait(running)["psd"], spectra()[0])
        self.router.expect(MessageType.GOODBYE)

    def test_the_loop_goes_on_while_credits_are_waited_for(self):
        async def submit(client):
            async with heartbeat() as heart:
                results = await asyncio.gather(*(client.submit("spectrum", iq()) for _ in range(40)))
            return heart, results
        running = self.run_async(submit, {"credit_requests": 2})
        for _ in range(20):
            messages = [self.router.expect(MessageType.SUBMIT) for _ in range(2)]
            time.sleep(0.05)  # the daemon's work, which the loop is not to wait for
            for message in messages:
                self.router.result(message, *spectra())
        heart, results = self.wait(running)
        self.assertEqual(len(results), 40)
        # A second of work in all: were the loop blocked by a wait for credits, it would beat about 20 times.
        self.assertGreater(heart.beats, 60)

    def test_the_loop_goes_on_while_the_client_connects(self):
        async def connect():
            async with heartbeat() as heart:
                async with AsyncClient(self.router.url, connect_timeout=PATIENCE_S) as client:
                    return heart.beats, await client.ping(PATIENCE_S)
        running = self.aside(asyncio.run, connect())
        hello = self.router.expect(MessageType.HELLO)
        time.sleep(0.4)
        self.router.welcome(hello)
        self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        beats, seconds = self.wait(running)
        self.assertGreater(beats, 20)
        self.assertGreater(seconds, 0)

    def test_it_connects_with_its_first_call_once(self):
        async def ping():
            client = AsyncClient(self.router.url, connect_timeout=PATIENCE_S)
            with self.assertRaises(RuntimeError):
                client.pipelines
            await asyncio.gather(client.ping(PATIENCE_S), client.ping(PATIENCE_S))
            self.assertIn("spectrum", client.pipelines)
            await client.close()
        running = self.aside(asyncio.run, ping())
        self.router.welcome(self.router.expect(MessageType.HELLO))
        for _ in range(2):
            self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        self.wait(running)
        self.router.expect(MessageType.GOODBYE)

    def test_errors_are_raised(self):
        async def submit(client):
            for error, pipeline, x in ((LookupError, "nothing", iq()), (TypeError, "spectrum", np.ones(3)),
                                       (ValueError, "decimated", np.ones(4, np.float32))):
                with self.assertRaises(error):
                    await client.submit(pipeline, x)
            with self.assertRaises(penstock.Failed):
                await client.submit("spectrum", iq())
        running = self.run_async(submit)
        self.router.error(self.router.expect(MessageType.SUBMIT), Status.FAILED)
        self.wait(running)

    def test_a_wait_for_credits_ends_with_the_timeout(self):
        async def submit(client):
            first = asyncio.ensure_future(client.submit("spectrum", iq()))
            await asyncio.sleep(0)
            with self.assertRaisesRegex(penstock.Expired, "no credit"):
                await client.submit("spectrum", iq(), timeout=0.05)
            await client.ping(PATIENCE_S)
            return await first
        running = self.run_async(submit, {"credit_requests": 1})
        message = self.router.expect(MessageType.SUBMIT)
        self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        self.router.result(message, *spectra())
        self.wait(running)

    def test_a_cancelled_task_cancels_its_request_and_leaves_the_credits_line(self):
        async def submit(client):
            tasks = [asyncio.ensure_future(client.submit("spectrum", iq())) for _ in range(3)]
            await asyncio.sleep(0)
            await client.ping(PATIENCE_S)  # the first is sent by now, the others wait
            for task in tasks[:2]:
                task.cancel()
            await asyncio.wait(tasks[:2])
            self.assertEqual([task.cancelled() for task in tasks[:2]], [True, True])
            return await tasks[2]
        running = self.run_async(submit, {"credit_requests": 1})
        first = self.router.expect(MessageType.SUBMIT)
        self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        cancel = self.router.expect(MessageType.CANCEL)
        self.assertEqual(cancel.id, first.id)
        self.router.error(first, Status.CANCELLED)
        self.answer(1)
        self.wait(running)

    def test_sessions_keep_the_order_of_the_calls(self):
        async def submit(client):
            async with client.session("decimated", timeout=PATIENCE_S) as session:
                sizes = (8, 8, 4, 8, 4)
                return await asyncio.gather(*(session.submit(np.full(size, at, np.float32))
                                              for at, size in enumerate(sizes)))
        running = self.run_async(submit, {"credit_requests": 2, "credit_bytes": 40})
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))
        for at in range(5):
            message = self.router.expect(MessageType.SUBMIT)
            self.assertEqual((message.array()[0, 0], message.header.sequence), (at, at))
            self.router.result(message, message.array())
        self.assertEqual([each.array[0] for each in self.wait(running)], list(range(5)))
        self.router.expect(MessageType.CLOSE_SESSION)

    def serve_session(self, requests):
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))
        for _ in range(requests):
            message = self.router.expect(MessageType.SUBMIT)
            self.router.result(message, message.array())

    def test_a_stream_is_iterated_over(self):
        x = np.arange(30, dtype=np.float32)

        async def blocks():
            for block in np.split(x, (5, 21)):
                await asyncio.sleep(0)
                yield block

        async def stream(client):
            async with client.session("decimated", timeout=PATIENCE_S) as session:
                from_async = [each.array async for each in session.stream(blocks())]
                from_list = [each.array async for each in session.stream(np.split(x, (5, 21)))]
                return np.concatenate(from_async), np.concatenate(from_list), (await session.run(x)).array
        running = self.run_async(stream)
        self.serve_session(2 * 4 + 2)
        for each in self.wait(running):
            np.testing.assert_array_equal(each, x)

    def test_the_loop_goes_on_while_a_source_waits(self):
        def source():
            for at in range(3):
                time.sleep(0.2)
                yield np.full(8, at, np.float32)

        async def stream(client):
            async with client.session("decimated", timeout=PATIENCE_S) as session, heartbeat() as heart:
                return [each.array[0] async for each in session.stream(source())], heart
        running = self.run_async(stream)
        self.serve_session(3)
        came, heart = self.wait(running)
        self.assertEqual(came, [0, 1, 2])
        self.assertGreater(heart.beats, 20)  # were it blocked: a few

    def test_a_session_is_iterated_over_while_another_task_sends(self):
        async def send_all(session):
            for at in range(6):
                await session.send(np.full(8, at, np.float32))
            session.close()

        async def both(client):
            session = await client.session("decimated", timeout=PATIENCE_S)
            sending = asyncio.ensure_future(send_all(session))
            came = [each.array[0] async for each in session]
            await sending
            return came
        running = self.run_async(both, {"credit_requests": 2})
        self.serve_session(6)
        self.assertEqual(self.wait(running), list(range(6)))

    def test_the_error_of_a_stream_is_raised(self):
        async def stream(client):
            async with client.session("decimated", timeout=PATIENCE_S) as session:
                with self.assertRaises(penstock.Failed):
                    async for _ in session.stream([np.ones(8, np.float32)] * 3):
                        pass

                async def broken():
                    yield np.ones(8, np.float32)
                    raise KeyError("source")
                with self.assertRaises((KeyError, penstock.SessionLost)):
                    async for _ in session.stream(broken()):
                        pass
            gc.collect()
        running = self.run_async(stream)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))
        self.router.error(self.router.expect(MessageType.SUBMIT), Status.FAILED)
        self.wait(running)


if __name__ == "__main__":
    unittest.main()
