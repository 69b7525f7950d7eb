# SPDX-License-Identifier: MIT
"""Strict reading of HTTP/1.1 messages. Whatever RFC 9112 does not allow is a ProtocolError: a
lenient reader in the tests would hide what a real peer would stumble over."""

import json
import re

HEAD_BYTES_MAX = 1 << 20

_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2}) ([\t\x20-\x7e\x80-\xff]*)\Z")
_REQUEST_LINE = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP/(1\.[01])\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t\x20-\x7e\x80-\xff]*)\Z")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}\Z")


class ProtocolError(AssertionError):
    """The peer sent what HTTP/1.1 does not allow."""


class ConnectionEnded(ConnectionError):
    """The peer ended the connection; `how` is "fin" or "rst", `got` what had come of the message
    (empty: the connection ended between messages)."""

    def __init__(self, how, got=b""):
        super().__init__(f"connection ended by {how} after {len(got)} bytes of a message: "
                         f"{bytes(got[-200:])!r}")
        self.how = how
        self.got = bytes(got)


class Truncated(ConnectionEnded):
    """It ended in the middle of a message's body; `message` has what came before."""

    def __init__(self, how, message, got=b""):
        super().__init__(how, got)
        self.message = message


class Message:
    """headers: list of (lower-case name, value), in order; body: bytes; trailers likewise."""

    def __init__(self):
        self.version = ""
        self.headers = []
        self.trailers = []
        self.body = b""
        self.raw_head = b""
        self.chunks = None  # sizes in order, if it was chunked

    def header_all(self, name):
        return [value for key, value in self.headers if key == name.lower()]

    def header(self, name, default=None):
        """The one value; more than one line of that name is an error."""
        values = self.header_all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else default

    def trailer(self, name, default=None):
        return next((value for key, value in self.trailers if key == name.lower()), default)

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Response(Message):
    def __init__(self):
        super().__init__()
        self.status = 0
        self.reason = ""
        self.informational = []  # 1xx answers that came before

    def __repr__(self):
        return f"<Response {self.status} {self.headers} {self.body[:200]!r}>"

    @property
    def problem(self):
        """The name of prazo's own problem document, such as "deadline-exceeded"; None if the
        answer is no problem document."""
        if self.header("content-type") != "application/problem+json":
            return None
        return re.split("[:/]", self.json["type"])[-1]


class Request(Message):
    def __init__(self):
        super().__init__()
        self.method = ""
        self.target = ""
        self.received_at = 0.0  # time.monotonic() when its head was complete
        self.received_ms = 0    # the same, Unix epoch milliseconds

    def __repr__(self):
        return f"<Request {self.method} {self.target} {self.headers} {self.body[:200]!r}>"


def _lines(head):
    """The head's lines without their CRLF; a bare CR, LF or NUL anywhere is an error."""
    lines = head[:-4].split(b"\r\n")
    for line in lines:
        if b"\r" in line or b"\n" in line or b"\0" in line:
            raise ProtocolError(f"bare CR, LF or NUL in {line!r}")
    return lines


def _fields(lines):
    fields = []
    for line in lines:
        match = _FIELD.match(line)
        if not match:
            raise ProtocolError(f"malformed field line {line!r}")
        name, value = match[1].lower(), match[2].rstrip(b"\t ")
        fields.append((name.decode("latin-1"), value.decode("latin-1")))
    return fields


def parse_response_head(head):
    lines = _lines(head)
    match = _STATUS_LINE.match(lines[0])
    if not match:
        raise ProtocolError(f"malformed status line {lines[0]!r}")
    response = Response()
    response.version = match[1].decode()
    response.status = int(match[2])
    response.reason = match[3].decode("latin-1")
    response.headers = _fields(lines[1:])
    response.raw_head = head
    return response


def parse_request_head(head):
    lines = _lines(head)
    match = _REQUEST_LINE.match(lines[0])
    if not match:
        raise ProtocolError(f"malformed request line {lines[0]!r}")
    request = Request()
    request.method = match[1].decode()
    request.target = match[2].decode("latin-1")
    request.version = match[3].decode()
    request.headers = _fields(lines[1:])
    request.raw_head = head
    if request.version == "1.1" and len(request.header_all("host")) != 1:
        raise ProtocolError(f"{len(request.header_all('host'))} Host lines in {head!r}")
    return request


def _framing(message):
    """("length", n), ("chunked", None) or ("none", None)."""
    lengths = message.header_all("content-length")
    codings = message.header_all("transfer-encoding")
    if len(lengths) > 1 or len(codings) > 1:
        raise ProtocolError(f"framing headers repeated: {message.headers}")
    if lengths and codings:
        raise ProtocolError(f"Content-Length and Transfer-Encoding: {message.headers}")
    if codings:
        if codings[0] != "chunked" or message.version != "1.1":
            raise ProtocolError(f"transfer-encoding {codings[0]!r} in HTTP/{message.version}")
        return "chunked", None
    if lengths:
        if not re.fullmatch("[0-9]{1,19}", lengths[0]):
            raise ProtocolError(f"content-length {lengths[0]!r}")
        return "length", int(lengths[0])
    return "none", None


def request_framing(request):
    return _framing(request)


def response_framing(response, method):
    """As _framing(), or ("eof", None); knows which answers have no body."""
    framing = _framing(response)
    if response.status < 200 or response.status == 204:
        if framing != ("none", None):
            raise ProtocolError(f"{response.status} with framing headers: {response.headers}")
        return framing
    if method == "HEAD" or response.status == 304:
        return "none", None
    return ("eof", None) if framing == ("none", None) else framing


class Reader:
    """Reads messages off a source. fill() of the source returns more bytes, or raises
    ConnectionEnded (or TimeoutError). Bytes of the next message stay in self.buffer."""

    def __init__(self, fill):
        self._fill = fill
        self.buffer = bytearray()

    def more(self):
        try:
            self.buffer += self._fill()
        except ConnectionEnded as ended:
            raise ConnectionEnded(ended.how, self.buffer) from None

    def until(self, delimiter, limit=HEAD_BYTES_MAX):
        """Up to and including the delimiter."""
        start = 0
        while True:
            at = self.buffer.find(delimiter, start)
            if at >= 0:
                return self.take(at + len(delimiter))
            if len(self.buffer) > limit:
                raise ProtocolError(f"no {delimiter!r} in {limit} bytes")
            start = max(0, len(self.buffer) - len(delimiter) + 1)
            self.more()

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def body(self, message, framing):
        """Reads the body into the message; it holds what came also when Truncated is raised."""
        kind, length = framing
        try:
            if kind == "length":
                self._length_body(message, length)
            elif kind == "chunked":
                self._chunked_body(message)
            elif kind == "eof":
                self._eof_body(message)
        except ConnectionEnded as ended:
            raise Truncated(ended.how, message, ended.got) from None

    def _length_body(self, message, length):
        try:
            message.body = self.take(length)
        except ConnectionEnded:
            message.body = bytes(self.buffer)
            raise

    def _eof_body(self, message):
        try:
            while True:
                self.more()
        except ConnectionEnded as ended:
            message.body = bytes(self.buffer)
            self.buffer.clear()
            if ended.how != "fin":
                raise

    def _chunked_body(self, message):
        message.chunks = []
        parts = bytearray()
        try:
            while True:
                line = self.until(b"\r\n", 4096)[:-2]
                if not _CHUNK_SIZE.match(line):
                    raise ProtocolError(f"malformed chunk size {line!r}")
                size = int(line, 16)
                if size == 0:
                    break
                data = self.take(size + 2)
                if data[-2:] != b"\r\n":
                    raise ProtocolError(f"chunk of {size} bytes ends with {data[-2:]!r}")
                parts += data[:-2]
                message.chunks.append(size)
        finally:
            message.body = bytes(parts)
        trailers = bytearray()
        while not (trailers == b"\r\n" or trailers.endswith(b"\r\n\r\n")):
            trailers += self.until(b"\r\n")
        if trailers != b"\r\n":
            message.trailers = _fields(_lines(bytes(trailers)))


def build_head(start_line, headers):
    """headers: dict or list of pairs; values str, int or bytes."""
    lines = [start_line.encode("latin-1")]
    for name, value in headers.items() if isinstance(headers, dict) else headers or []:
        value = value if isinstance(value, bytes) else str(value).encode("latin-1")
        lines.append(name.encode("latin-1") + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def has_header(headers, *names):
    pairs = headers.items() if isinstance(headers, dict) else headers or []
    return any(name.lower() in names for name, _ in pairs)
