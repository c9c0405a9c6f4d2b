"""Request handlers, one module per area: from request values to plain response values."""
