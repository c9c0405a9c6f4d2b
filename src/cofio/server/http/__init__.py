"""HTTP service: depends on the keeper, and on nothing below it.

request ─ guard ─▶ admitted ─ reading ─▶ schema ─ answers (in a worker thread) ─▶ reply
                        routes: one list, from which the router, the OpenAPI document and the docs page are generated
"""
