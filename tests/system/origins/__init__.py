# SPDX-License-Identifier: ISC
"""Helper servers of the system tests: all of them live in the test process, on sockets that a
holder process makes inside the network namespaces of a test world."""
