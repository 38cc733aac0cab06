"""Client of Penstock, a daemon that puts live data on a GPU.

    from penstock import Client

    with Client("tcp://127.0.0.1:7600") as c:
        power = c.submit("spectrum", samples).result()["psd"]

        with c.session("spectrogram") as s:  # frames in order, which share the pipeline's state
            futures = [s.submit(block) for block in blocks]

        with c.session("spectrogram") as s:
            whole = s.run(recording)["fir"]

For asyncio there is `AsyncClient`.
"""
from .account import Account
from .asynchronous import AsyncClient, AsyncSession
from .client import Client
from .control import PipelineDescription, TensorDescription, Welcome
from .errors import Cancelled, Expired, Failed, NoCredit, PenstockError, Rejected, SessionLost, Shutdown, Unreachable
from .result import Result
from .session import Numbers, Session
from .subscription import Published, Subscription
from .tensor import Tensor
from .version import __version__
from .wire import SampleAccount, SampleFlag, Status, TimeQuality

__all__ = ["Account", "AsyncClient", "AsyncSession", "Cancelled", "Client", "Expired", "Failed", "NoCredit", "Numbers",
           "PenstockError", "PipelineDescription", "Published", "Rejected", "Result", "SampleAccount", "SampleFlag",
           "Session", "SessionLost", "Shutdown", "Status", "Subscription", "Tensor", "TensorDescription", "TimeQuality",
           "Unreachable", "Welcome", "__version__"]
