"""The HTTP service: an edge that knows the keeper and nothing below it.

request ─ guard ─▶ admitted ─ reading ─▶ schema ─ answers (in a worker thread) ─▶ reply
                        routes: the one list that the router, the OpenAPI document and the docs page are made from
"""
