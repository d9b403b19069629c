import ServicePlatform
import StoreFleet
import StorePlatform

/// The metrics of all stores of a fleet, as one text.
struct FleetMetrics {
    private let fleet: Fleet
    private let lines: FleetCommandLines
    private let programs: FleetPrograms
    private let timeLimit: Duration

    /// The mode of a file that a collector of another user reads.
    private static let textfileMode: UInt32 = 0o644

    init(_ fleet: Fleet, _ lines: FleetCommandLines, _ programs: FleetPrograms, _ timeLimit: Duration) {
        (self.fleet, self.lines, self.programs, self.timeLimit) = (fleet, lines, programs, timeLimit)
    }

    /// One collection.
    struct Collection {
        let text: String
        /// The stores that could not be read, or that the key does not open.
        let down: [String]
        let stores: Int
        /// Notes and warnings about the stores.
        let messages: [String]
    }

    /// Reads all stores.
    func collect() -> Collection {
        var metrics = OpenMetrics()
        var down: [String] = fleet.gaps.map(\.pattern)
        let newest = NewestBackups(fleet, programs)
        let replicas = FleetReplicas(fleet, programs)
        for gap in fleet.gaps { metrics.addReading(of: gap.pattern, succeeded: false) }
        var messages: [String] = []
        var outcomes: [(Fleet.Store, FleetResult, String)] = []
        let paths = fleet.stores.map(\.path)
        let stores = Dictionary(fleet.stores.map { ($0.path, $0) }, uniquingKeysWith: { first, _ in first })
        try? programs.run(paths, timeLimit: timeLimit, { path in arguments(stores[path]) }) { path, outcome in
            guard let store = stores[path] else { return }
            outcomes.append((store, FleetResult(path, outcome), String(decoding: outcome.output, as: UTF8.self)))
        }
        // The order of the ends would move the lines from one collection to the next.
        for (store, result, text) in outcomes.sorted(by: { $0.0.path < $1.0.path }) {
            let isWhole = result.failure == nil && metrics.merge(text)
            if !isWhole { metrics.addReading(of: store.path, succeeded: false) }
            if !isWhole || text.contains("\ncipherstore_up{store=\(OpenMetrics.label(store.path))} 0\n") {
                down.append(store.path)
            }
            messages += result.messages.map { "\(store.path): \($0)" }
            metrics.add(result, of: store, newest, id: OpenMetrics.storeID(in: text))
            if let replica = replicas.state(of: store) { metrics.add(replica, of: store) }
        }
        metrics.addCollection(stores: fleet.stores.count + fleet.gaps.count)
        return Collection(
            text: metrics.text.joined(separator: "\n") + "\n", down: down,
            stores: fleet.stores.count + fleet.gaps.count, messages: messages)
    }

    private func arguments(_ store: Fleet.Store?) -> [String] {
        guard let store, let words = try? lines.arguments(for: store) else { return [] }
        return words.map { $0 == "--json" ? "--openmetrics" : $0 }
    }

    /// Prints the metrics, or writes them into a file in one step.
    ///
    /// The exit code is 0 whatever they say, as that of a single store: a collector would drop them.
    func print(to path: String?, _ console: Console) throws -> ExitCode {
        let collection = collect()
        try Interruption.shared.check()
        for message in collection.messages { console.note(message) }
        guard let path else {
            try console.output.write(collection.text)
            return .ok
        }
        // Another user of the folder may have put a link or a pipe there: that has no mode to keep.
        let isThere = try Files.kindOfName(path) == .regular
        try AtomicFile.write(
            Array(collection.text.utf8), to: path, likeFile: isThere ? path : nil, permissions: Self.textfileMode)
        return .ok
    }
}

extension OpenMetrics {
    /// Adds what is known of a store from outside.
    fileprivate mutating func add(_ result: FleetResult, of store: Fleet.Store, _ newest: NewestBackups, id: String?) {
        if let duration = result.duration {
            add(
                "cipherstore_check_seconds", .gauge, help: "How long it took to read the state of the store.",
                [(["store": store.path], .real(duration / .seconds(1)))])
        }
        if let id, let age = newest.age(of: store, id: id) {
            add(
                "cipherstore_repository_backup_age_seconds", .gauge,
                help: "How long ago the newest backup in the repository of the store was made.",
                [(["store": store.path], .int(age))])
        }
    }

    fileprivate mutating func add(_ replica: FleetReplicas.State, of store: Fleet.Store) {
        let labels: KeyValuePairs<String, String> = ["store": store.path]
        add(
            "cipherstore_replication_running", .gauge, help: "Whether a process replicates the store.",
            [(labels, .int(replica.isRunning ? 1 : 0))])
        guard let lag = replica.lag else { return }
        add(
            "cipherstore_replication_lag_seconds", .gauge,
            help: "For how long the oldest commit has waited that is not replicated.", [(labels, .real(lag))])
    }

    fileprivate mutating func addCollection(stores: Int) {
        add(
            "cipherstore_fleet_stores", .gauge, help: "Stores and unmatched patterns of the fleet file.",
            [([:], .int(stores))])
        add(
            "cipherstore_collection_timestamp_seconds", .gauge, help: "When these metrics were collected.",
            [([:], .int(WallClock.secondsSince1970))])
    }
}
