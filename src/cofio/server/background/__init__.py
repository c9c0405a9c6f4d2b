"""Threads of the service: inbox worker, maintenance scheduler, notes watcher."""
