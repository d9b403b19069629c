import CipherDatabase

/// A way to print rows, for debugging. Its output is data: keep it out of log files.
///
/// ```swift
/// try db.dumpSQL("SELECT * FROM player", format: .json())
/// ```
public protocol DumpFormat {
    /// Prints the current row of a statement.
    mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) throws

    /// Prints what follows the last row of a statement; called once for each statement, also without rows.
    mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream)
}

/// The target of a dump: a string of the caller's, or standard output.
public struct DumpStream: TextOutputStream {
    private var base: any TextOutputStream
    private var needsMargin = false

    init(_ base: (any TextOutputStream)?) { self.base = base ?? StandardOutput() }

    /// Prints an empty line before the next output.
    public mutating func margin() { needsMargin = true }

    public mutating func write(_ text: String) {
        guard let first = text.first else { return }
        if needsMargin && first != "\n" { base.write("\n") }
        needsMargin = false
        base.write(text)
    }

    mutating func writeLine(_ text: String) {
        write(text)
        write("\n")
    }

    private struct StandardOutput: TextOutputStream {
        func write(_ text: String) { print(text, terminator: "") }
    }
}

/// Whether dumps of tables print the names of the tables.
public enum DumpTableHeaderOptions: Sendable {
    /// When there are several tables.
    case automatic
    /// Always.
    case always
}

/// The columns of a statement's current row, as formats print them.
struct DumpedRow {
    let names: [String]
    let values: [DatabaseValue]

    init(_ statement: Statement) {
        // The library's own columns are omitted.
        let shown = statement.columnNames.enumerated().filter { !Database.isGRDBInternalTable($0.element) }
        names = shown.map(\.element)
        values = shown.map { DatabaseValue(sqliteStatement: statement.sqliteStatement, index: CInt($0.offset)) }
    }
}
