"""Run ``python -m …`` from a process that has imported torch already.

A notebook's kernel, and the pytest that starts it, spend seconds on imports
and tenths of a second on the notebook. Here one process imports, and forks
for each of them. What runs is what would have run: the same module with the
same arguments, folder, environment and streams, in a process of its own.

    prefork.py serve SOCKET              import, then fork on request, for as
                                         long as a connection to SOCKET.users
                                         is open
    prefork.py run SOCKET MODULE ARGS…   be a module's process, for a parent

``run`` imports next to nothing: it hands its streams to the server, passes
signals on, and ends as the module ended.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback

#: What kernels and pytest import.
IMPORTS = """
    IPython ipykernel.kernelapp ipykernel.zmqshell stack_data sqlite3
    IPython.core.completerlib IPython.extensions.storemagic
    ipykernel.debugger ipykernel.kernelspec jupyter_client.asynchronous
    jupyter_client nbformat nbformat.v4 pytest _pytest.assertion.rewrite
    _pytest.junitxml _pytest.unittest nbval.plugin xdist.plugin pdb
    anyio.pytest_plugin anyio._backends._asyncio coverage execnet tabulate
    attn.publishing.nbval_plugin attn.publishing.notebooks
    matplotlib.pyplot matplotlib_inline.backend_inline
    PIL.JpegImagePlugin PIL.PngImagePlugin
    torch torch._dynamo torch.nn.attention triton.runtime.interpreter
    attn.api attn.bench attn.cost attn.data.minilm attn.data.smollm
    attn.hf attn.kernels.report attn.nn attn.plot attn.publishing.claims
    attn.exercises.draw attn.exercises.symmetry
    attn.grading.learner.session
    onnx.reference.ops._op_list gguf
    transformers.modeling_gguf_pytorch_utils
    transformers.models.bert.modeling_bert
    transformers.models.llama.modeling_llama
"""


def main() -> None:
    """Be a server for the tests, or one process that it forks."""
    action, address, *argv = sys.argv[1:]
    if action == "run":
        sys.exit(run(address, argv))
    load()
    requests, users = listen(address), listen(users_of(address))
    print("ready", flush=True)
    serve(requests, users)


def users_of(address: str) -> str:
    """Return the socket that keeps the server of an address running."""
    return f"{address}.users"


def load() -> None:
    """Import what is installed of ``IMPORTS``, to be shared by children."""
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # read at import
    for name in IMPORTS.split():
        with contextlib.suppress(ImportError):  # a chapter says what is absent
            importlib.import_module(name)
    importlib.import_module("attn.exercises.spec").every_exercise()
    nbformat = importlib.import_module("nbformat")
    nbformat.validate(nbformat.v4.new_notebook())  # compiles its schema
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, what is shared


def listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    return listener


def serve(requests: socket.socket, users: socket.socket) -> None:
    """Fork for each request, and run it there; end with the last user."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # none is waited for
    connected = {users.accept()[0]}
    while connected:
        ready, _, _ = select.select([requests, users, *connected], [], [])
        connected -= set(ready)  # a user says nothing but that it ends
        if users in ready:
            connected.add(users.accept()[0])
        if requests not in ready:
            continue
        request, _ = requests.accept()
        if os.fork() == 0:
            break
        request.close()
    else:
        os._exit(0)  # the last user has left
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    requests.close()
    users.close()
    module = _received(request)
    child = os.fork()
    if child:
        os._exit(_watch(child, request))
    request.close()
    _become(module)


def _received(request: socket.socket) -> dict:
    """Return the module to run; its streams take the place of our own."""
    text, streams, *_ = socket.recv_fds(request, 2**20, 3)
    while not text.endswith(b"\n"):
        text += request.recv(2**20)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return json.loads(text)


def _watch(child: int, request: socket.socket) -> int:
    """Pass signals on, kill with the parent, report how it ended."""
    ended = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([ended, request.fileno()], [], [])
        if ended in ready:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            request.sendall(json.dumps(status).encode())
            return 0
        number = request.recv(1)
        if not number:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 1
        os.kill(child, number[0])


def _become(module: dict) -> None:
    """Run a module as ``python -m`` does, and end."""
    os.setsid()
    os.chdir(module["folder"])
    os.environ.clear()
    os.environ.update(module["environment"])
    sys.argv = module["argv"]
    sys.path[0] = module["folder"]
    importlib.invalidate_caches()
    status = 0
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    # An interpreter that ends takes apart, piece by piece, what is shared.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(address: str, argv: list[str]) -> int:
    """Run a module in a child of the server; return its exit status."""
    with socket.socket(socket.AF_UNIX) as request:
        request.connect(address)
        module = {"argv": argv, "folder": os.getcwd()}
        module["environment"] = dict(os.environ)
        text = json.dumps(module).encode() + b"\n"
        sent = socket.send_fds(request, [text], [0, 1, 2])
        request.sendall(text[sent:])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda x, _: request.send(bytes([x])))
        status = request.recv(64)
    code = json.loads(status) if status else 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
