import Foundation
import PageFormat
import Testing

@Suite("Rows of tables, read without a connection")
struct TableReaderTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "tables-\(UUID().uuidString)")

    /// A plain database, and what SQLite says of its tables.
    private func withDatabase(_ sql: String..., body: (SystemSQLCipher, [UInt8], Int) throws -> Void) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "\(sql.hashValue).db")
        let database = try SystemSQLCipher(file, keyspec: nil)
        for statement in sql { try database.run(statement) }
        try body(database, Array(Data(contentsOf: file)), Int(try #require(Int(database.value("PRAGMA page_size")))))
    }

    private func reader(_ bytes: [UInt8], _ pageBytes: Int) -> TableReader {
        TableReader(pageCount: UInt32(bytes.count / pageBytes), usableBytes: pageBytes) {
            Array(bytes[(Int($0) - 1) * pageBytes..<Int($0) * pageBytes])
        }
    }

    private func rows(_ reader: TableReader, _ root: UInt32) throws -> [TableReader.Row] {
        var rows: [TableReader.Row] = []
        _ = try reader.first(inTree: root) { row -> Void? in
            rows.append(row)
            return nil
        }
        return rows
    }

    @Test("all rows of schemas and tables of one page and of many are those that SQLite reads", arguments: [512, 4096])
    func differential(pageBytes: Int) throws {
        let filling = "WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)"
        try withDatabase(
            "PRAGMA page_size = \(pageBytes); CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)",
            "\(filling) INSERT INTO t SELECT i * i * i - 9, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN (1 << i % 63) - i "
                + "WHEN 2 THEN i % 2 WHEN 3 THEN -i * i * i ELSE 'text ' || i END, zeroblob(i % 900) FROM c",
            (0..<60).map { "CREATE TABLE other\($0) (a /* \(String(repeating: "long ", count: $0 * 20)) */)" }
                .joined(separator: ";")
        ) { database, bytes, found in
            #expect(found == pageBytes)
            let reader = reader(bytes, pageBytes)
            let schema = try rows(reader, TableReader.schemaRoot)
            #expect(schema.count == 61)
            #expect(schema.map(\.number) == Array(1...61))
            let root = try reader.first(inTree: TableReader.schemaRoot) { row -> UInt32? in
                guard row.values[1] == .text(Array("t".utf8)), case .integer(let page) = row.values[3] else {
                    return nil
                }
                return UInt32(page)
            }
            let rows = try rows(reader, try #require(root))
            let expected = try database.rows("SELECT id, quote(a), length(b) FROM t ORDER BY id")
            #expect(rows.map { "\($0.number)" } == expected.map { $0[0] })
            for (row, expected) in zip(rows, expected) {
                switch row.values[1] {
                case .null: #expect(expected[1] == "NULL")
                case .integer(let value): #expect("\(value)" == expected[1])
                case .text(let text): #expect("'\(String(decoding: text, as: UTF8.self))'" == expected[1])
                case .real, .blob: Issue.record("\(row.number)")
                }
                // A value that goes on in other pages is left out.
                guard row.values.count > 2 else { continue }
                #expect(row.values[2] == .blob([UInt8](repeating: 0, count: Int(expected[2]) ?? -1)))
            }
            #expect(rows.contains { $0.values.count == 2 } == (pageBytes == 512))
        }
    }

    @Test("a tree that is damaged anywhere never makes it read beyond a page, nor for ever")
    func damage() throws {
        try withDatabase(
            "PRAGMA page_size = 512; CREATE TABLE t (a, b); WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM "
                + "c WHERE i < 100) INSERT INTO t SELECT i, zeroblob(i) FROM c"
        ) { _, bytes, pageBytes in
            var generator = SeededGenerator("damaged trees")
            var refused = 0
            for _ in 0..<5000 {
                var changed = bytes
                for _ in 0..<Int.random(in: 1...8, using: &generator) {
                    let page = Int.random(in: 0..<bytes.count / pageBytes, using: &generator)
                    let offset = (page == 0 ? 100 : 0) + Int.random(in: 0..<60, using: &generator)
                    changed[page * pageBytes + offset] = UInt8.random(in: 0...255, using: &generator)
                }
                for root in [TableReader.schemaRoot, 2] {
                    do {
                        _ = try rows(reader(changed, pageBytes), root)
                    } catch is PageFormatError {
                        refused += 1
                    }
                }
            }
            #expect(refused > 0)
        }
    }

    @Test("a tree that leads back to its own page is damaged, and not followed for ever")
    func circle() throws {
        var page = [UInt8](repeating: 0, count: 512)
        page[0] = 5  // An inner page without cells, whose last child is itself.
        page[11] = 2
        #expect(throws: PageFormatError.damagedTree(page: 2)) { try rows(reader(header + page, 512), 2) }
    }

    @Test("a row that would go on behind its page is damaged, and nothing behind the page is read")
    func behindThePage() throws {
        var page = [UInt8](repeating: 0, count: 512)
        (page[0], page[4], page[8], page[9]) = (13, 1, 1, 0xf4)  // A leaf with one row, 12 bytes before the end.
        // 100 bytes, row 1, of a header of 2 bytes and a blob of 98, of which 8 are there.
        page.replaceSubrange(500..<505, with: [100, 1, 3, 0x81, 0x50])
        #expect(throws: PageFormatError.damagedTree(page: 2)) { try rows(reader(header + page, 512), 2) }
        // A row of 9 bytes fits, but not where the last four bytes of a page are not SQLite's.
        page.replaceSubrange(500..<505, with: [9, 1, 2, 26, 0])
        let whole = try rows(reader(header + page, 512), 2)
        #expect(whole.map(\.values) == [[.blob([UInt8](repeating: 0, count: 7))]])
        let shorter = TableReader(pageCount: 2, usableBytes: 508) { $0 == 2 ? page : header }
        #expect(throws: PageFormatError.damagedTree(page: 2)) { try rows(shorter, 2) }
    }

    /// The first page, of which nothing is read here.
    private var header: [UInt8] { [UInt8](repeating: 0, count: 512) }
}
