"""What others read of a running application by HTTP: metrics, probes, the snapshot. All of it comes from the snapshot.

`settings` (observe.listen) ask for it; without them nothing of this room is imported. Open to other rooms: `listener`,
`probes`.
"""
