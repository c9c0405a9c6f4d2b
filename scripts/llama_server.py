"""llama.cpp's server with one model on the loopback address; it ends when its stdin is closed.

    python scripts/llama_server.py FILE.gguf PORT [NAME] [THREADS] [CONTEXT]

Runs in the Python environment that scripts/local_model.py creates, without cofio. Two requests share the context, so
that the two prompts which cofio sends alternately both stay cached.
"""

from __future__ import annotations

import os
import sys

import xllamacpp

_SLOTS = 2


def main() -> int:
    file, port, name, threads, context = (*sys.argv[1:], *("", "", "local", "2", "8192")[len(sys.argv) - 1 :])
    os.nice(10)  # it uses all available CPU time
    wanted = xllamacpp.CommonParams()
    wanted.model.path = file
    wanted.model_alias = {name}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = int(port)
    wanted.n_ctx, wanted.n_parallel = _SLOTS * int(context), _SLOTS
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = int(threads)
    wanted.endpoint_metrics = True
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)  # noqa: T201
    sys.stdin.read()
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
