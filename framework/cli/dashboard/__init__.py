"""The dashboard: pages for a browser about a cluster and the applications of this machine. Server-rendered, offline.

A thread looks at the cluster every few seconds (`watching`), views turn what it saw into pages, `guard` decides who may
see and do what, `acts` changes things after a plan was shown. Everything blocks, on threads of its own.
"""
