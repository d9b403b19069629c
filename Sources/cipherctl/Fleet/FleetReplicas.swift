import Foundation
import StoreFleet
import StoreTools

/// How far the replicas of a fleet follow their stores.
struct FleetReplicas {
    /// One replica, as `cipherctl replicate --status` reports it.
    struct State {
        /// Whether a process replicates the store now.
        let isRunning: Bool
        /// For how long the oldest commit has waited that is not stored, in seconds; nil where a new base is needed.
        let lag: Double?
    }

    /// The lag that needs attention unless the file gives another, in seconds.
    private static let usualLimit: UInt64 = 60

    /// By the paths of the stores.
    private var states: [String: State] = [:]
    private var failures: [String: String] = [:]

    init(_ fleet: Fleet, _ programs: FleetPrograms) {
        var (states, failures) = ([String: State](), [String: String]())
        let stores = fleet.stores.filter { $0.settings.replicaPlace != nil }
        try? programs.run(
            stores, timeLimit: FleetOptions.checkLimit,
            { ["replicate", $0.path, "--to", $0.settings.replicaPlace ?? "", "--status", "--json"] }
        ) { store, result in
            guard result.failure == nil, let isRunning = result.members["running"] as? Bool else {
                failures[store.path] = result.failure?.message ?? "it has no status"
                return
            }
            states[store.path] = State(isRunning: isRunning, lag: result.members["lag_seconds"] as? Double)
        }
        (self.states, self.failures) = (states, failures)
    }

    /// - Returns: nil for a store without a replica in the file, and for one whose replica cannot be read.
    func state(of store: Fleet.Store) -> State? { states[store.path] }

    /// The fault of the replica of a store, as a sentence; nil for none.
    func finding(on store: Fleet.Store) -> String? {
        guard let place = store.settings.replicaPlace else { return nil }
        if let failure = failures[store.path] { return "its replica in \"\(place)\" cannot be examined: \(failure)" }
        guard let state = states[store.path] else { return nil }
        guard state.isRunning else { return "no process replicates it to \"\(place)\"" }
        guard let lag = state.lag else { return "its replica in \"\(place)\" needs a new base" }
        guard store.settings.maxReplicationLag != "none" else { return nil }
        let limit = store.settings.maxReplicationLag.flatMap(AgeText.seconds) ?? Self.usualLimit
        guard lag > Double(limit) else { return nil }
        return
            "its replica in \"\(place)\" is \(AgeText.text(UInt64(lag))) behind, and at most \(AgeText.text(limit)) is allowed"
    }
}
