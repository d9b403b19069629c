import CipherDatabase
import Foundation
import KeyCustody
import StorePlatform

/// Inserts the records of a CSV file into a table, in one transaction or in batches.
///
/// | field | value |
/// |---|---|
/// | nothing, without quotes, or the text for NULL | NULL |
/// | `""` | the empty text |
/// | `X'00FF'`, except in columns of text | a blob |
/// | anything else | a text, which the column's affinity makes a number |
///
/// A record is bad if it is malformed, has another number of fields than the header, has no number in a column of integers
/// or reals, or is refused by a constraint of the table.
package struct CSVImport {
    package let table: String
    /// The ASCII character between fields.
    package var separator = UInt8(ascii: ",")
    /// The unquoted text that stands for NULL.
    package var nullText = ""
    /// Whether the first record names the columns; otherwise the fields are the columns of the table in their order.
    package var hasHeader = true
    /// Whether the table is made from the header, with columns of text.
    package var createsTable = false
    /// The number of rows after which a transaction is committed; nil for one transaction.
    package var batchRows: Int?
    /// Whether bad records are left out; otherwise the first one ends the import.
    package var skipsBadLines = false

    package init(into table: String) { self.table = table }

    /// The result of an import.
    package struct Report {
        package var rowCount = 0
        /// The number of records that were left out.
        package var badLineCount = 0
        /// The first of them.
        package var badLines: [BadLine] = []
    }

    /// A record that was not inserted.
    package struct BadLine {
        /// The line in which the record begins, from 1 on.
        package let line: Int
        /// The reason, as a part of a sentence; never a value.
        package let reason: String
    }

    /// Why an import ended early.
    package struct Failure: Error {
        package enum Cause {
            case badLine(String)
            case header(String)
            case noTable
            case noWritableTable
            case tableExists
            case transactionEnded
            case error(any Error)
        }

        package let cause: Cause
        /// The line in which the record begins; nil where the import had not begun.
        package let line: Int?
        /// The rows of batches that are committed, and stay.
        package let committedRows: Int
        /// The last line of which the row is committed.
        package let committedLine: Int
    }

    /// Runs the import on a connection that may write. Inside a transaction of the caller it is a savepoint of that one.
    ///
    /// - Parameters:
    ///   - read: Fills a buffer with the next bytes of the file; returns 0 at the end.
    ///   - check: Called after each record; an error ends the import.
    /// - Throws: ``Failure``; nothing but the committed batches is in the table then.
    package func run(
        into db: Database, check: () throws -> Void = {},
        read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Report {
        var progress = Progress(db)
        do {
            try progress.begin()
            var reader = CSVReader(separator: separator, read: read)
            let target = try target(&reader, &progress, db)
            let insert = try db.makeStatement(sql: target.insert)
            while let (record, line) = try reader.nextRecord() {
                progress.line = line
                if isBlank(record), target.columns.count > 1 { continue }
                if let reason = try insertRow(record, target, insert, db) {
                    try progress.leaveOut(reason, skipsBadLines: skipsBadLines)
                    if case .malformed(let fault) = record, fault.isFinal {
                        throw progress.failure(.badLine(reason))
                    }
                } else {
                    try progress.count(batchRows: batchRows)
                }
                try check()
            }
            try progress.commit()
            return progress.report
        } catch {
            progress.rollBack()
            if error is TransactionEnded { throw progress.failure(.transactionEnded) }
            throw error as? Failure ?? progress.failure(.error(error))
        }
    }

    private func isBlank(_ record: CSVReader.Record) -> Bool {
        record == .fields([CSVReader.Field(text: "", isQuoted: false)])
    }

    // MARK: The table

    private struct Target {
        let columns: [Column]
        let insert: String
    }

    private struct Column {
        let name: String
        let affinity: Affinity
    }

    private func target(_ reader: inout CSVReader, _ progress: inout Progress, _ db: Database) throws -> Target {
        var header: [String]?
        if hasHeader {
            progress.line = 1
            guard let first = try reader.nextRecord() else { throw progress.failure(.header("the file is empty")) }
            progress.line = first.line
            header = try names(first.record, progress)
        }
        let exists = try db.tableExists(table)
        if createsTable {
            if try exists || db.viewExists(table) { throw progress.failure(.tableExists) }
            let columns = (header ?? []).map { "\($0.quotedIdentifier) TEXT" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE main.\(table.quotedIdentifier) (\(columns))")
        } else if !exists {
            throw progress.failure(try db.viewExists(table) ? .noWritableTable : .noTable)
        }
        let shape = try TableShape(table, in: db)
        let known = try db.columns(in: table).filter { shape.givenColumns.contains($0.name) }
        let chosen = try header.map { names in
            try names.map { name in
                guard let column = known.first(where: { $0.name.lowercased() == name.lowercased() }) else {
                    let generated = shape.columns.contains { $0.lowercased() == name.lowercased() }
                    throw progress.failure(
                        .header("column \"\(name)\" \(generated ? "is generated" : "is not in the table")"))
                }
                return column
            }
        }
        let columns = (chosen ?? known).map { Column(name: $0.name, affinity: Affinity(declared: $0.type)) }
        let list = columns.map(\.name.quotedIdentifier).joined(separator: ", ")
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        return Target(
            columns: columns, insert: "INSERT INTO main.\(table.quotedIdentifier) (\(list)) VALUES (\(places))")
    }

    private func names(_ record: CSVReader.Record, _ progress: Progress) throws -> [String] {
        let fields: [CSVReader.Field]
        switch record {
        case .fields(let found): fields = found
        case .malformed(let fault): throw progress.failure(.header(fault.sentence))
        }
        let names = fields.map(\.text)
        if names.contains("") { throw progress.failure(.header("a column has no name")) }
        var taken = Set<String>()
        for name in names where !taken.insert(name.lowercased()).inserted {
            throw progress.failure(.header("column \"\(name)\" is named twice"))
        }
        return names
    }

    // MARK: A row

    private struct TransactionEnded: Error {}

    /// - Returns: Why the record is bad; nil if its row was inserted.
    private func insertRow(
        _ record: CSVReader.Record, _ target: Target, _ insert: Statement, _ db: Database
    ) throws -> String? {
        let fields: [CSVReader.Field]
        switch record {
        case .fields(let found): fields = found
        case .malformed(let fault): return fault.sentence
        }
        guard fields.count == target.columns.count else {
            return "it has \(CountText.text(fields.count, "field")) instead of \(target.columns.count)"
        }
        var values: [DatabaseValue] = []
        values.reserveCapacity(fields.count)
        for (field, column) in zip(fields, target.columns) {
            guard let value = value(of: field, column.affinity) else {
                return "column \"\(column.name)\" is of \(column.affinity.noun), and its field has no number"
            }
            values.append(value)
        }
        do {
            try insert.execute(arguments: StatementArguments(plain: values))
        } catch let error as DatabaseError
            where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG].contains(error.resultCode)
        {
            // A trigger may have rolled the transaction back.
            guard db.isInsideTransaction else { throw TransactionEnded() }
            return error.message ?? "SQLite refused it"
        }
        return nil
    }

    /// - Returns: nil for a text that is no number in a column of numbers.
    private func value(of field: CSVReader.Field, _ affinity: Affinity) -> DatabaseValue? {
        if !field.isQuoted, field.text == nullText { return .null }
        if affinity != .text, let blob = Self.blob(field.text) { return blob.databaseValue }
        if affinity == .real, let infinity = Self.infinities[field.text] { return infinity.databaseValue }
        if affinity == .integer || affinity == .real, !Self.isNumber(field.text) { return nil }
        return field.text.databaseValue
    }

    private static let infinities = ["inf": Double.infinity, "-inf": -Double.infinity]

    private static func blob(_ text: String) -> Data? {
        let bytes = text.utf8
        guard bytes.count >= 3, bytes.first.map({ $0 | 0x20 }) == UInt8(ascii: "x"),
            bytes.dropFirst().first == UInt8(ascii: "'"), bytes.last == UInt8(ascii: "'")
        else { return nil }
        return Hex.bytes(bytes.dropFirst(2).dropLast()).map { Data($0) }
    }

    /// Whether SQLite reads the whole text as a number: digits with a point and an exponent, between blanks.
    static func isNumber(_ text: String) -> Bool {
        var rest = Substring(text).utf8.drop { $0 == 0x20 || 9...13 ~= $0 }
        func skipDigits() -> Int {
            let digits = rest.prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }.count
            rest = rest.dropFirst(digits)
            return digits
        }
        func skip(_ bytes: [UInt8]) -> Bool {
            guard let first = rest.first, bytes.contains(first) else { return false }
            rest = rest.dropFirst()
            return true
        }
        let signs = [UInt8(ascii: "+"), UInt8(ascii: "-")]
        _ = skip(signs)
        var digits = skipDigits()
        if skip([UInt8(ascii: ".")]) { digits += skipDigits() }
        guard digits > 0 else { return false }
        if skip([UInt8(ascii: "e"), UInt8(ascii: "E")]) {
            _ = skip(signs)
            guard skipDigits() > 0 else { return false }
        }
        return rest.allSatisfy { $0 == 0x20 || 9...13 ~= $0 }
    }
}

/// The affinity of a column by its declared type.
/// - SeeAlso: <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>
private enum Affinity {
    case integer
    case text
    case blob
    case real
    case numeric

    init(declared type: String) {
        let type = type.uppercased()
        self =
            if type.contains("INT") {
                .integer
            } else if ["CHAR", "CLOB", "TEXT"].contains(where: type.contains) {
                .text
            } else if type.isEmpty || type.contains("BLOB") || type == "ANY" {
                .blob
            } else if ["REAL", "FLOA", "DOUB"].contains(where: type.contains) {
                .real
            } else {
                .numeric
            }
    }

    var noun: String { self == .integer ? "integers" : "reals" }
}

/// The transactions of an import, and how far it is.
private struct Progress {
    private let db: Database
    private let isNested: Bool
    private var isOpen = false
    private var committedRows = 0
    private var committedLine = 0
    /// Where the present record begins; nil before the first.
    var line: Int?
    private(set) var report = CSVImport.Report()

    init(_ db: Database) {
        self.db = db
        isNested = db.isInsideTransaction
    }

    mutating func begin() throws {
        try db.execute(sql: isNested ? "SAVEPOINT cipherctl_import" : "BEGIN IMMEDIATE")
        isOpen = true
    }

    mutating func commit() throws {
        try db.execute(sql: isNested ? "RELEASE cipherctl_import" : "COMMIT")
        isOpen = false
        committedRows = report.rowCount
        committedLine = line ?? 0
    }

    mutating func rollBack() {
        guard isOpen, db.isInsideTransaction else { return }
        try? db.execute(
            sql: isNested ? "ROLLBACK TO cipherctl_import; RELEASE cipherctl_import" : "ROLLBACK")
        isOpen = false
    }

    mutating func count(batchRows: Int?) throws {
        report.rowCount += 1
        guard let batchRows, !isNested, report.rowCount - committedRows >= batchRows else { return }
        try commit()
        try begin()
    }

    mutating func leaveOut(_ reason: String, skipsBadLines: Bool) throws {
        guard skipsBadLines else { throw failure(.badLine(reason)) }
        report.badLineCount += 1
        if report.badLines.count < ToolLimits.listedBadLines {
            report.badLines.append(CSVImport.BadLine(line: line ?? 0, reason: reason))
        }
    }

    func failure(_ cause: CSVImport.Failure.Cause) -> CSVImport.Failure {
        CSVImport.Failure(cause: cause, line: line, committedRows: committedRows, committedLine: committedLine)
    }
}
