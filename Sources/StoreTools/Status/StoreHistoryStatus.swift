import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StorePlatform

/// The changes that a store records, and their readers.
public struct StoreHistoryStatus: Sendable {
    /// The tables whose changes are recorded, by name.
    public let tables: [String]
    /// Whether tables that are created later are recorded, too.
    public let includesNewTables: Bool
    /// How many changes are kept.
    public let changes: Int64
    /// About how many bytes these take.
    public let bytes: Int64
    /// The registered readers, with the changes that each has not acknowledged.
    public let readers: [HistoryReader]
    let faults: [HistoryTriggerFault]

    /// The findings about the history of a store.
    package enum Reading: Sendable {
        /// The store records nothing, and never has.
        case none
        case found(StoreHistoryStatus)
        /// Another program has dropped tables of the history.
        case broken
        /// The store has a history that could not be read, for this reason.
        case unknown(String)
    }

    /// Reads the history of a store, which is opened for that only if it has one.
    ///
    /// - Parameter choice: The sidecar, authenticated by a key.
    static func read(_ path: String, _ choice: AuthenticatedSidecar) -> Reading {
        do {
            guard try isThere(path, choice) else { return .none }
        } catch {
            // Pages that cannot be read are reported by others.
            return .none
        }
        do {
            let store = try StoreOpening.readOnly(path, holding: choice.keys, onNotice: { _ in })
            defer { try? store.close() }
            if try store.read({ try $0.isHistoryBroken() }) { return .broken }
            return .found(try store.read { try StoreHistoryStatus($0) })
        } catch {
            return .unknown(ToolError.explanation(of: error))
        }
    }

    /// Whether the schema has tables or triggers of a history.
    private static func isThere(_ path: String, _ choice: AuthenticatedSidecar) throws -> Bool {
        try StorePages.schema(of: path, choice) { name, _ in name.hasPrefix("cipherstore_history") }
    }

    private init(_ db: Database) throws {
        guard let status = try db.historyStatus() else { throw HistoryError.notRecorded }
        tables = status.tableNames
        includesNewTables = try db.recordsAllTables()
        (changes, bytes) = (status.changeCount, status.byteCount)
        readers = status.readers
        faults = try db.historyTriggerFaults()
    }
}

extension StorePages {
    /// Whether the schema has an object for which a condition is true. It is read below SQLite, as the age of the sidecar
    /// is, so that the store is not opened.
    ///
    /// - Parameter condition: Is given the name and the SQL of each object, in lower-case ASCII.
    /// - Throws: An error of the pages that cannot be read.
    static func schema(
        of path: String, _ choice: AuthenticatedSidecar, has condition: (_ name: String, _ sql: String) -> Bool
    ) throws -> Bool {
        var polling = Polling.untilSettled()
        while true {
            do {
                return try StorePages(path, choice).tables.first(inTree: TableReader.schemaRoot) { row in
                    // The columns are type, name, table, root page and text; texts may be in UTF-16.
                    let texts = row.values.map { value in
                        guard case .text(let bytes) = value else { return "" }
                        return String(decoding: bytes.filter { $0 != 0 }, as: UTF8.self).lowercased()
                    }
                    return texts.count > 1 && condition(texts[1], texts.last ?? "") ? true : nil
                } ?? false
            } catch {
                guard polling.sleep() else { throw error }
            }
        }
    }
}

extension StoreHistoryStatus.Reading {
    /// The findings that need attention, each with its remedy.
    var findings: [Finding] {
        switch self {
        case .none: []
        case .found(let history): history.findings
        case .broken:
            [
                Finding(
                    .risk, "historyBroken",
                    "another program has dropped tables of the history of changes, so that recorded tables cannot be "
                        + "written",
                    remedy: "open the store once for writing, which makes a new, empty history: cipherctl sql --write")
            ]
        case .unknown(let reason):
            [Finding(.note, "historyNotRead", "the history of changes could not be examined: \(reason)")]
        }
    }
}

extension StoreHistoryStatus {
    /// The findings that need attention, each with its remedy.
    fileprivate var findings: [Finding] {
        faults.map { fault in
            Finding(
                .risk, "historyTriggers", fault.text, remedy: "open the store once for writing: cipherctl sql --write")
        }
            + readers.compactMap { reader in
                reader.expirationReason.map { reason in
                    Finding(
                        .risk, "historyReaderExpired",
                        "the reader \"\(reader.name)\" of the history has expired: \(reason)",
                        remedy:
                            "let its program read everything again, or forget it: cipherctl history readers --remove")
                }
            }
    }
}

extension HistoryTriggerFault {
    fileprivate var text: String {
        if isTableMissing {
            return
                "the table \"\(tableName)\", whose changes are recorded, was dropped or renamed by a program without "
                + "this library: readers of the history are not notified"
        }
        let parts = [(missing, "dropped"), (changed, "changed")].filter { !$0.0.isEmpty }.map { names, what in
            "\(names.joined(separator: ", ")) \(what)"
        }
        return "the triggers that record changes of the table \"\(tableName)\" are not as they should be "
            + "(\(parts.joined(separator: "; "))): changes are missing from the history"
    }
}
