//! Bugs that tests switch on, to see that the simulation catches them.

/// A bug that the machine could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "no bug is switched on but in tests"))]
pub(crate) enum Planted {
    /// What happens to an object before a query's read is done is not told to the query.
    RegisterAfterRead,
    /// A change is matched by what the object's labels are, and not by what they were.
    NewLabelsOnly,
    /// A failed run leaves the primary with the queries of the last good one alone.
    SetKeptAfterFailure,
    /// That an object went out of sight while a read was under way is not remembered.
    DropDuringRead,
    /// An older state replaces a newer one.
    OlderOverNewer,
    /// A deletion leaves no tombstone.
    RevivalAfterDeletion,
    /// What a list no longer holds after a gap is not taken for gone.
    LostDeletionsAfter410,
    /// An object that was deleted and created anew is taken for the same.
    RecreatedUid,
    /// An object is released before it is known who else protects it.
    ReleaseOnIncompleteIndex,
    /// The event of a run's own write wakes nobody, not even others.
    OwnWriteSwallowsOthers,
}
