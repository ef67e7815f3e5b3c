"""Helpers that any plugin in Python can copy: they make the contract's records with the usual choices."""

import json

from wit_world.imports.types import (
    Apply, ApplyMode_Upsert, Cluster_PrimaryCluster, Fields_Paths, NamedQuery, ObjectKind, ObjectPermission,
    ObjectReference, Outcome, Query, QueryTarget_Named, Request_Objects, Write_Apply, WriteAction, WriteState_Failed,
)


def may(verbs, group, kind, reason):
    """Asks for verbs on a kind. The group is empty for the core group."""
    return Request_Objects(ObjectPermission(group, kind, verbs, reason))


def named(id, api_version, kind, namespace, name, fields):
    """Asks for one object in the primary's cluster. The plugin runs even if that fails, so that it can say so."""
    reference = ObjectReference(Cluster_PrimaryCluster(), ObjectKind(api_version, kind), namespace, name)
    return Query(id, QueryTarget_Named(NamedQuery(reference, Fields_Paths(fields))), tolerate=True)


def find(answers, id):
    """What the query with this id found."""
    return next(answer.finding for answer in answers if answer.id == id)


def apply(object):
    """Creates or updates an object in the primary's cluster, without taking fields over from others."""
    return Write_Apply(Apply(Cluster_PrimaryCluster(), json.dumps(object), ApplyMode_Upsert(), force=False))


def outcome(*writes, status=None):
    """An outcome with what most have. Records have no defaults, so all eight fields are named."""
    return Outcome(
        writes=list(writes), status=status, events=[], protect=[], prune=None, controllers=[], again_after=None,
        again_if_written=False,
    )


def failed_write(primary):
    """The write of the last run that failed, if one did. The status is sent again by itself."""
    for write in primary.last_writes:
        if write.action != WriteAction.STATUS and isinstance(write.state, WriteState_Failed):
            return write.state.value
    return None
