"""A small HTTP/1.1 server for an event loop, on h11. It knows no page and no application.

A route is `(method, path) -> async handler`: `HttpRequest` in, `HttpResponse` out. A body may be an async iterator of
bytes, for live tails. `HttpServer(world, routes).start()` listens and answers the port, `close()` ends. It binds
127.0.0.1 unless told otherwise; `HttpLimits` are what peers may use. h11 is imported with `server` alone, which callers
import when they listen. Open to other rooms: `messages`, `server`.
"""
