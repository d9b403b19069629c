import StorePlatform
import StoreSharing

// What a shared store needs of its pool: to query it outside of accesses, to end what runs, and to replace it by
// another one.

extension DatabasePool {
    /// What a pool takes over when it is opened in place of this one: its slot in the table of holders with the
    /// statistics of its writes, and those of its checkpoints.
    package var carryOver: PoolCarryOver { writer.carryOver }

    /// Keeps an object alive until every connection of the pool, its snapshots included, has been closed.
    package func keep(_ object: any AnyObject & Sendable) { dependency.keep(object) }

    /// Calls a function when the reads that are under way now have ended.
    package func afterReadsUnderWay(_ tell: @escaping @Sendable () -> Void) { readers.afterReadsUnderWay(tell) }

    /// Whether reads are under way now.
    package var hasReadsUnderWay: Bool { readers.areLent }

    /// Whether an access of the writing connection is under way.
    package var isWriterBusy: Bool { writer.connection.isBusy }

    /// Whether this thread is inside an access of this pool.
    package var isAccessedHere: Bool {
        writer.connection.isAccessedHere || readers.connectionAccessedHere != nil
    }

    /// Makes the accesses under way end with an error as soon as they can, or, with nil, lets them continue. To be
    /// called repeatedly while there are any: a statement may begin after an interruption.
    package func withdrawAccesses(because reason: (any Error)?) {
        writer.connection.withdraw(because: reason)
        readers.withdraw(because: reason)
    }

    /// Runs an access that cannot throw by itself on a placeholder for a connection that is not available: each
    /// statement throws the reason.
    package static func refuse<T>(
        because reason: any Error, _ configuration: Configuration, _ body: (Database) throws -> T
    ) rethrows -> T {
        try SerialConnection.unopened(because: reason, configuration).sync(body)
    }
}

/// The state of a pool that outlives it, for another one that is opened in its place.
package struct PoolCarryOver: Sendable {
    let writeSlot: WriteSlot?
    let checkpoints: CheckpointRecorder

    /// Statistics of the writes, over all pools that shared this state.
    package var writeStatistics: WriteStatistics { writeSlot?.statistics ?? WriteStatistics() }

    /// Statistics of the checkpoints, over all pools that shared this state.
    package var checkpointStatistics: CheckpointStatistics { checkpoints.statistics }

    /// Whether the write slot is held, as the table of holders shows.
    package var ownsWriteSlot: Bool { writeSlot?.isOwner ?? false }

    /// Publishes a role of the store in the table of holders.
    package func setHolderRole(_ role: HolderRoles, _ isOn: Bool) { writeSlot?.setRole(role, isOn) }

    /// Releases the slot in the table of holders, where no pool does it.
    package func release() { writeSlot?.release() }
}
