"""Tables about a repository: its history, its nodes, its chunk references.

columns      numpy and text to Arrow
context      the repository as a table sees it
history      history, snapshots, refs, ops_log
contents     nodes, manifests, diff
references   chunk_refs, storage: read by executors, manifest by manifest
catalog      all of them by name
functions    the same as table functions of SQL
"""
