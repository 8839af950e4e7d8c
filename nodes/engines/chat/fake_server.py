"""A local OpenAI-compatible HTTP server with scripted answers: a test double that ships with the package.

It speaks the real protocol over a real socket (``/v1/chat/completions``, ``/v1/models``), so that a chat
engine, a graph or the command line can be tried without a key, a network or a model; and it can misbehave in
the ways that real endpoints do. Standard library only::

    with FakeOpenAIServer(["first answer", FakeAnswer(status=429), "second answer"]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)

Answers are given in order, to all roles or per role (a mapping from ``planner``, ``coder``, ``verifier``,
recognised by the system prompt's first words), or made by a function of the request.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from stitchcuda.nodes.engines.chat.fake_answer import FakeAnswer, completion_body, error_body, events_body

__all__ = ["FakeAnswer", "FakeOpenAIServer", "FakeRequest"]


@dataclass(frozen=True)
class FakeRequest:
    """One request that arrived: ``body`` is its JSON, ``key`` the bearer token."""

    path: str
    key: str
    body: dict[str, Any]

    @property
    def role(self) -> str:
        """The role that the first message speaks to, in lower case; empty when it names none."""
        messages = self.body.get("messages") or [{}]
        match = re.search(r"You are the (\w+)", str(messages[0].get("content", "")))
        return match.group(1).lower() if match else ""

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n\n".join(str(message.get("content", "")) for message in self.body.get("messages", ()))


Given = FakeAnswer | str
Answers = Sequence[Given] | Mapping[str, Sequence[Given]] | Callable[[FakeRequest], Given]


class FakeOpenAIServer:
    """The server; a context manager that listens on a free port of the loopback interface.

    Args:
        answers: what to answer, see the module's text. Past the end it answers 500.
        key: the only key accepted; any when ``None``.
        models: the only model names accepted; any when empty.
        takes_schema: answers 400 to a ``response_format`` when false.
        refuses: parameters that a request must not have; a 400 names the first that it has.
        streams: answers a request for a stream with a plain body when false.
        windows: context window by model name, told in the model list.
        repeat_last: gives the last answer again past the end.
    """

    def __init__(
        self,
        answers: Answers = (),
        *,
        key: str | None = None,
        models: Sequence[str] = (),
        takes_schema: bool = True,
        repeat_last: bool = False,
        refuses: Sequence[str] = (),
        streams: bool = True,
        windows: Mapping[str, int] | None = None,
    ) -> None:
        self.answers = answers
        self.key = key
        self.models = tuple(models)
        self.takes_schema = takes_schema
        self.repeat_last = repeat_last
        self.refuses = tuple(refuses)
        self.streams = streams
        self.windows = dict(windows or {})
        self.most_at_once = 0
        """The most requests that were being answered at the same time."""
        self._at_once = 0
        self.requests: list[FakeRequest] = []
        """Every chat request that arrived, refused ones too."""
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Address up to ``/v1``, as ``base_url`` wants it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the end of the server."""
        self._stopping.wait(seconds)

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count a request as being answered."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def answer(self, request: FakeRequest) -> FakeAnswer:
        """What to answer to ``request``, which is noted."""
        with self._lock:
            self.requests.append(request)
            if self.key is not None and request.key != self.key:
                message = f"Incorrect API key provided: {request.key}."
                return FakeAnswer(status=401, error=message, code="invalid_api_key")
            name = str(request.body.get("model"))
            if self.models and name not in self.models:
                return FakeAnswer(status=404, error=f"The model `{name}` does not exist", code="model_not_found")
            if not self.takes_schema and "response_format" in request.body:
                return FakeAnswer(status=400, error="response_format is not supported")
            if refused := [name for name in self.refuses if name in request.body]:
                return FakeAnswer(status=400, error=f"Unsupported parameter: '{refused[0]}'")
            given = self._next(request)
        return FakeAnswer(given) if isinstance(given, str) else given

    def _next(self, request: FakeRequest) -> Given:
        if callable(self.answers):
            return self.answers(request)
        queue, answers = "", self.answers
        if isinstance(answers, Mapping):
            queue = request.role
            answers = answers.get(queue, ())
        index = self._used.get(queue, 0)
        self._used[queue] = index + 1
        if index >= len(answers):
            if not answers or not self.repeat_last:
                return FakeAnswer(
                    status=500, error=f"the script has no answer number {index + 1} for {queue or 'anybody'}"
                )
            index = len(answers) - 1
        return answers[index]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    fake: FakeOpenAIServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the play; nothing is printed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open, as those of real endpoints do
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        if not self.path.rstrip("/").endswith("/models"):
            self._send(404, error_body("no such path", None))
            return
        windows = self.server.fake.windows
        names = self.server.fake.models or tuple(windows) or ("fake",)
        entries = [{"id": name, "object": "model", "owned_by": "fake"} for name in names]
        data = [{**one, "max_model_len": windows[one["id"]]} if one["id"] in windows else one for one in entries]
        listing = {"object": "list", "data": data}
        self._send(200, json.dumps(listing).encode())

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.rstrip("/").endswith("/chat/completions"):
            self._send(404, error_body("no such path", None))
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._send(400, error_body("the request is not JSON", None))
            return
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        fake = self.server.fake
        answer = fake.answer(FakeRequest(self.path, key, body))
        with fake.one_more(), suppress(BrokenPipeError, ConnectionResetError):
            self._play(answer, body)

    def _play(self, answer: FakeAnswer, request: dict[str, Any]) -> None:
        if answer.delay_s:
            self.server.fake.wait(answer.delay_s)
        if answer.drop == "before":
            # With no time to linger, closing sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        payload = answer.body
        if payload is None and answer.status < 400 and request.get("stream") and self.server.fake.streams:
            answer = replace(answer, content_type="text/event-stream")
            payload = events_body(answer, request)
        if payload is None:
            failed = answer.status >= 400
            payload = (
                error_body(answer.error or f"status {answer.status}", answer.code)
                if failed
                else completion_body(answer, request)
            )
        self._send(answer.status, payload, answer)

    def _send(self, status: int, payload: bytes, answer: FakeAnswer | None = None) -> None:
        answer = answer or FakeAnswer()
        self.send_response(status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.drop == "within":
            self.wfile.write(payload[: len(payload) // 2])
            self.wfile.flush()
            self.close_connection = True
            return
        if answer.drip_s:
            for at in range(len(payload)):
                if self.server.fake._stopping.is_set():
                    self.close_connection = True
                    return
                self.wfile.write(payload[at : at + 1])
                self.server.fake.wait(answer.drip_s)
            return
        self.wfile.write(payload)
