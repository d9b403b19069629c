import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The state of a pool that the next pool of the same store continues, after the store has yielded.
package struct PoolCarryOver: Sendable {
    let writeTurn: WriteTurn?
    let checkpoints: CheckpointRecorder
    let observers: ObserverKeeper

    /// For the commits of other connections.
    package var monitorLink: MonitorLink? { observers.link }

    /// Statistics of the writes, over all pools that shared this state.
    package var writeStatistics: WriteStatistics { writeTurn?.statistics ?? WriteStatistics() }

    /// Statistics of the checkpoints, over all pools that shared this state.
    package var checkpointStatistics: CheckpointStatistics { checkpoints.statistics }

    /// Whether the write turn is held, as the table of holders shows.
    package var ownsWriteTurn: Bool { writeTurn?.isOwner ?? false }

    /// Publishes a role of the store in the table of holders.
    package func setHolderRole(_ role: HolderRoles, _ isOn: Bool) { writeTurn?.setRole(role, isOn) }

    /// Releases the row in the table of holders and the observers, where no pool does it.
    package func release() {
        writeTurn?.release()
        observers.observer = nil
    }
}
