/// How a table is recorded, as `cipherstore_history_table` describes it. It never changes: where the definition of the
/// table or the options change, another one takes its place.
struct RecordedTable: Equatable, Sendable {
    enum State: Int64, Sendable {
        /// It was replaced by another one, or recording was ended.
        case retired = 0
        /// Its triggers record.
        case recording = 1
        /// The table was dropped; it is recorded again if it comes back.
        case waiting = 2
    }

    struct Definition: Codable, Equatable, Sendable {
        /// The columns of the key, in the order of the key; `rowid` where the table declares none.
        var key: [String]
        /// Whether the key is the rowid.
        var isRowID: Bool
        /// All columns, generated ones included.
        var columns: [String]
        /// Whether the changed columns are recorded.
        var notesColumns: Bool
        /// The columns of which deletions keep the values.
        var kept: [String]
        /// Whether the triggers pause in a commit of the table's repository, which writes its changes itself. It is
        /// left out where they do not.
        private(set) var pauses: Bool?

        var pausesInCommits: Bool {
            get { pauses == true }
            set { pauses = newValue ? true : nil }
        }
    }

    let id: Int64
    let name: String
    let state: State
    let definition: Definition

    /// The numbers that a table may have: `kind` has room for more.
    static let numbers: ClosedRange<Int64> = 1...(1 << 48)

    func kind(_ operation: HistoryOperation) -> Int64 { id * 8 + operation.rawValue }

    /// The beginning of the names of its triggers.
    var triggerPrefix: String { Self.triggerPrefix(id) }
    static func triggerPrefix(_ id: Int64) -> String { "cipherstore_history_\(id)_" }

    /// The columns that a bit mask stands for.
    func columns(of mask: Int64) -> Set<String> {
        var names: Set<String> = []
        for (index, name) in definition.columns.enumerated() {
            if mask & (1 << Int64(min(index, HistoryTriggers.lastBit))) != 0 { names.insert(name) }
        }
        return names
    }
}
