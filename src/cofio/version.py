"""The version, alone in a file so that packaging, the service and the command line read the same one."""

__version__ = "0.1.0"
