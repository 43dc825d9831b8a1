"""The sandbox, a wing: one process kept to a policy, by limits, Landlock and seccomp, namespaces, or bubblewrap.

`launch` is its door for programs and `confine` for functions; `abilities` finds out what the machine can enforce.
Stdlib only. The daemon's side of it is `children.launchers` and `children.abilities`.
"""
