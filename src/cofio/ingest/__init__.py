"""From a conversation to decisions: sanitize, extract, reconcile, and the pipeline that runs them."""
