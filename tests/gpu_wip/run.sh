K=/tmp/k; mkdir -p $K && cp -r gpu/kern $K/ && cd $K/kern && mkdir -p bin lib/penstock && chmod -R go-w $K && for f in penstockd penstock; do xz -dc $f.xz > bin/$f; chmod 755 bin/$f; done; xz -dc penstock-cuda.so.xz > lib/penstock/penstock-cuda.so; cp -a $1/lib/*.so* lib/
export PYTHONPATH=$2:$1/python
bin/penstockd -c p.toml --check-config --arch sm_90 | tail -3
bin/penstockd -c p.toml > d.log 2>&1 & D=$!
python3 test.py tcp://127.0.0.1:7950
for r in 1 2 3 4 5; do for p in affine agc; do echo -n "$p "; bin/penstock --url tcp://127.0.0.1:7950 bench -p $p --size 64 --clients 8 --in-flight 8 --duration 1.5s --warmup 0.3s | grep -E "throughput"; done; done
kill $D; wait $D; echo daemon $?; tail -5 d.log
