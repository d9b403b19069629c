import StorePlatform
import StoreSharing

// What a shared store needs of its pool: to look into it from outside of accesses, to end what runs, and to put another one
// in its place.

extension DatabasePool {
    /// What a pool takes over that is opened in the place of this one: its place in the table of holders with its writes so
    /// far, and the count of its checkpoints.
    package var heritage: PoolHeritage { writer.heritage }

    /// Keeps an object until every connection of the pool, its snapshots included, has been closed.
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

    /// Makes the accesses under way end with an error as soon as they can, or, with nil, lets them go on. To be called
    /// again while there are any: a statement may begin behind an interruption.
    package func withdrawAccesses(because reason: (any Error)?) {
        writer.connection.withdraw(because: reason)
        readers.withdraw(because: reason)
    }

    /// Runs an access that cannot throw by itself on a connection that stands for one which cannot be had: each statement
    /// throws why.
    package static func refuse<T>(
        because reason: any Error, _ configuration: Configuration, _ body: (Database) throws -> T
    ) rethrows -> T {
        try SerialConnection.unopened(because: reason, configuration).sync(body)
    }
}

/// What of a pool outlives it, when another one is opened in its place.
package struct PoolHeritage: Sendable {
    let writeSlot: WriteSlot?
    let checkpoints: CheckpointRecorder

    /// How the writes went, of all pools with this heritage.
    package var writeStatistics: WriteStatistics { writeSlot?.statistics ?? WriteStatistics() }

    /// What checkpoints did, of all pools with this heritage.
    package var checkpointStatistics: CheckpointStatistics { checkpoints.statistics }

    /// Whether the write slot is held, as the table of holders tells.
    package var ownsWriteSlot: Bool { writeSlot?.isOwner ?? false }

    /// Tells others, by way of the table of holders, what the store is.
    package func setHolderRole(_ role: HolderRoles, _ isOn: Bool) { writeSlot?.setRole(role, isOn) }

    /// Gives the place in the table of holders back, where no pool does it.
    package func release() { writeSlot?.release() }
}
