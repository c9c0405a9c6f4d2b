"""Queries for the dashboard, and the map of memories."""
