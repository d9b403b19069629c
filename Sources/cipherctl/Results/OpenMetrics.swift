import KeyCustody
import StorePlatform
import StoreSharing
import StoreTools

/// Metrics in the text format that monitoring systems collect.
/// - SeeAlso: <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>
struct OpenMetrics {
    enum Kind: String {
        case gauge
        case counter
        /// Labels that describe something; its value is 1.
        case info

        /// The end of the names of its series.
        var suffix: String {
            switch self {
            case .gauge: ""
            case .counter: "_total"
            case .info: "_info"
            }
        }
    }

    /// A metric with the series of all stores, which stand together.
    private struct Family {
        var head: [String]
        var series: [String] = []
    }

    /// The units that end the names of metrics.
    private static let units = ["seconds", "bytes", "pages", "frames", "changes"]

    private var families: [Family] = []
    private var places: [String: Int] = [:]

    /// Adds values of a metric, after those of other stores.
    ///
    /// - Parameters:
    ///   - name: With its unit at the end, without `_total` or `_info`.
    ///   - help: Its meaning, in one sentence.
    ///   - values: Each with the labels that distinguish it.
    mutating func add(
        _ name: String, _ kind: Kind, help: String, _ values: [(labels: KeyValuePairs<String, String>, value: JSON)]
    ) {
        guard !values.isEmpty else { return }
        let place = places[name] ?? families.count
        if place == families.count {
            places[name] = place
            let unit = Self.units.first { name.hasSuffix("_" + $0) }.map { ["# UNIT \(name) \($0)"] } ?? []
            let head = ["# TYPE \(name) \(kind.rawValue)"] + unit + ["# HELP \(name) \(Self.escaped(help))"]
            families.append(Family(head: head))
        }
        for (labels, value) in values {
            let list = labels.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
            families[place].series.append(
                "\(name)\(kind.suffix)\(list.isEmpty ? "" : "{\(list)}") \(value.text)")
        }
    }

    /// Adds the metrics of a text that this type has written, as of another process.
    ///
    /// - Returns: Whether the text is whole; if not, nothing was added.
    mutating func merge(_ text: String) -> Bool {
        var lines = text.split(separator: "\n").map(String.init)
        guard lines.popLast() == "# EOF", text.hasSuffix("\n") else { return false }
        var found: [(name: String, family: Family)] = []
        for line in lines {
            let words = line.split(separator: " ", maxSplits: 3)
            if line.hasPrefix("# TYPE "), words.count == 4 { found.append((String(words[2]), Family(head: []))) }
            guard let last = found.indices.last, line.hasPrefix("# ") || line.hasPrefix(found[last].name) else {
                return false
            }
            if line.hasPrefix("# ") {
                found[last].family.head.append(line)
            } else {
                found[last].family.series.append(line)
            }
        }
        for (name, family) in found {
            if let place = places[name] {
                families[place].series += family.series
            } else {
                places[name] = families.count
                families.append(family)
            }
        }
        return true
    }

    /// The value of a label, with its quotes.
    static func label(_ text: String) -> String { "\"\(escaped(text))\"" }

    /// The identifier of the store in a text of one store; nil where it is not known.
    static func storeID(in text: String) -> String? {
        text.firstMatch(of: #/\ncipherstore_store_info\{[^\n]*store_id="([0-9a-f]+)"/#).map { String($0.1) }
    }

    /// The whole text; a collector treats a text without this end as truncated.
    var text: [String] { families.flatMap { $0.head + $0.series } + ["# EOF"] }

    private static func escaped(_ text: String) -> String {
        text.withoutControls(keepsLines: true).replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing(
            "\n", with: "\\n")
    }
}

extension OpenMetrics {
    /// Adds whether a store could be read, and, with the key, whether the key opens it.
    mutating func addReading(of path: String, succeeded: Bool) {
        gauge(
            ["store": path], "up", "Whether the store could be read, and whether the given key opens it.",
            succeeded ? 1 : 0)
    }

    /// Adds the metrics of a store.
    ///
    /// - Parameter attention: The number of findings that need attention.
    mutating func add(_ found: StoreStatus.Report, attention: Int) {
        let store: KeyValuePairs = ["store": found.path]
        if let identity = found.storeID {
            add(
                "cipherstore_store", .info, help: "What identifies the store for life.",
                [(["store": found.path, "store_id": "\(identity)"], .int(1))])
        }
        gauge(store, "file_bytes", "Length of the database file.", found.fileBytes)
        gauge(store, "pages", "Pages of the database at its last commit.", found.pages)
        gauge(store, "wal_bytes", "Length of the WAL.", found.walBytes)
        gauge(store, "wal_frames", "Committed frames in the WAL.", found.walFrames)
        if let copied = found.copiedFrames {
            gauge(
                store, "checkpoint_lag_frames",
                "Committed frames that no checkpoint has copied into the database file.",
                max(0, found.walFrames - copied))
        }
        if let free = SpacePolicy.freeBytes(found.path) {
            gauge(store, "free_bytes", "Free space on the filesystem of the store.", free)
        }
        if let sidecar = found.sidecar { gauge(store, "epoch", "Data keys that the store has had.", sidecar.epoch) }
        addKeys(found.sidecar, found.keyHealth, store)
        addHistory(found.history, found.path)
        gauge(store, "attention", "Findings that need attention.", attention)
        guard let holders = found.holders else { return }
        gauge(store, "holders", "Connections and processes that hold the store.", holders.count)
        gauge(
            store, "waiting", "Connections that wait in the writer queue.",
            holders.count { $0.uses.contains(.waiting) })
        addHolders(holders, found.path)
    }

    private mutating func addKeys(
        _ sidecar: Sidecar?, _ health: KeyHealth, _ store: KeyValuePairs<String, String>
    ) {
        if let sidecar { gauge(store, "key_slots", "Keyslots; 0 in a direct store.", sidecar.slots.count) }
        if let age = health.keyAge { gauge(store, "data_key_age_seconds", "How old the data key is.", age) }
        if let age = health.backupAge {
            gauge(store, "backup_age_seconds", "How long ago a backup was last verified.", age)
        }
        let isPending = sidecar.map { $0.state == .rotating || $0.state == .switching } ?? false
        gauge(store, "rotation_pending", "Whether a rotation is running or was interrupted.", isPending ? 1 : 0)
    }

    private mutating func addHistory(_ history: StoreHistoryStatus?, _ path: String) {
        guard let history else { return }
        gauge(["store": path], "history_changes", "Changes that the history keeps.", history.changes)
        gauge(["store": path], "history_bytes", "About how many bytes the changes take.", history.bytes)
        add(
            "cipherstore_history_reader_lag_changes", .gauge, help: "Changes that a reader has not acknowledged.",
            history.readers.map { (["store": path, "reader": $0.name], .integer($0.lag)) })
        add(
            "cipherstore_history_reader_expired", .gauge, help: "Whether a reader was slower than the limits allow.",
            history.readers.map { (["store": path, "reader": $0.name], .int($0.isExpired ? 1 : 0)) })
    }

    private mutating func gauge(
        _ store: KeyValuePairs<String, String>, _ name: String, _ help: String, _ value: some BinaryInteger
    ) {
        add("cipherstore_" + name, .gauge, help: help, [(store, .int(value))])
    }

    private mutating func addHolders(_ holders: StoreHolders, _ path: String) {
        func values(_ value: (StoreHolder) -> JSON?) -> [(labels: KeyValuePairs<String, String>, value: JSON)] {
            holders.compactMap { holder in
                value(holder).map { value in
                    (
                        [
                            "store": path, "pid": holder.isIdentified ? "\(holder.process)" : "",
                            "command": holder.command ?? "",
                            // Distinguishes the connections of one process.
                            "slot": holder.row.map(String.init) ?? "", "label": holder.label ?? "",
                        ], value
                    )
                }
            }
        }
        func seconds(_ time: (StoreHolder) -> Duration?) -> [(labels: KeyValuePairs<String, String>, value: JSON)] {
            values { holder in
                holder.uses.contains(.writer) ? time(holder).map { .real($0 / .seconds(1)) } : nil
            }
        }
        add(
            "cipherstore_writes", .counter, help: "Writes that a connection has completed.",
            values { $0.uses.contains(.writer) ? .int($0.writeCount) : nil })
        add(
            "cipherstore_write_seconds", .counter, help: "How long a connection kept others from writing.",
            seconds(\.writeTime))
        add(
            "cipherstore_write_wait_seconds", .counter, help: "How long a connection waited in the writer queue.",
            seconds(\.waitTime))
        add(
            "cipherstore_longest_write_seconds", .gauge, help: "The longest write of a connection.",
            seconds(\.longestWrite))
        add(
            "cipherstore_writing_seconds", .gauge, help: "How long the current write has taken.",
            seconds(\.writingFor))
        add(
            "cipherstore_holder_stopped", .gauge, help: "Whether a holder is stopped, and keeps what it holds.",
            values { .int($0.state == .stopped ? 1 : 0) })
    }
}
