import CipherDatabase
import CipherRecords
import Foundation
import Testing

/// The conversions of a record's values by the types of columns: a value that would be changed is refused.
@Suite struct StoredPrecisionTests {
    private struct Sample<Value: Codable & Sendable>: Codable, PersistableRecord, FetchableRecord {
        static var databaseTableName: String { "sample" }
        var id: Int
        var value: Value
    }

    private func queue(_ type: String, strict: Bool = false) throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: "CREATE TABLE sample (id INTEGER PRIMARY KEY, value \(type))\(strict ? " STRICT" : "")")
        }
        return queue
    }

    /// Stores a value in each way that a record has.
    ///
    /// - Returns: The errors' codes; nil where the value was stored and came back.
    private func codes<Value: Codable & Sendable & Equatable>(
        _ value: Value, in type: String, strict: Bool = false
    ) throws -> [ResultCode?] {
        let ways: [@Sendable (Database, Sample<Value>) throws -> Void] = [
            { try $1.insert($0) }, { _ = try $1.insertAndFetch($0) }, { try $1.upsert($0) }, { try $1.save($0) },
            { db, sample in
                try db.execute(sql: "INSERT INTO sample (id) VALUES (1)")
                try sample.update(db)
            },
            { db, sample in
                try db.execute(sql: "INSERT INTO sample (id) VALUES (1)")
                try sample.update(db, columns: ["value"])
            },
        ]
        return try ways.map { way in
            try queue(type, strict: strict).write { db in
                do {
                    try way(db, Sample(id: 1, value: value))
                    #expect(try Sample<Value>.fetchOne(db, key: 1)?.value == value, "\(type)")
                    return nil
                } catch let error as DatabaseError {
                    #expect(error.message?.contains("value") == true)
                    #expect(try Int.fetchOne(db, sql: "SELECT count(value) FROM sample") == 0)
                    return error.resultCode
                }
            }
        }
    }

    private func isStored<Value: Codable & Sendable & Equatable>(
        _ value: Value, in type: String, strict: Bool = false
    ) throws -> Bool {
        let codes = try codes(value, in: type, strict: strict)
        #expect(Set(codes).count == 1)
        #expect(codes.allSatisfy { $0 == nil || $0 == .SQLITE_MISMATCH })
        return codes == codes.map { _ in nil }
    }

    /// It became a double without a word.
    @Test("a decimal of more digits than a double has is refused by numeric types, and stored as a text")
    func decimals() throws {
        for text in ["1234567890.123456789", "0.1234567890123456789", "-12345678901234567890", "9223372036854775808"] {
            let decimal = try #require(Decimal(string: text))
            // ANY is a type of its own in STRICT tables alone.
            for type in ["NUMERIC", "DECIMAL(38,19)", "INTEGER", "REAL", "DOUBLE", "DATETIME", "ANY", "BLOBINT"] {
                #expect(try !isStored(decimal, in: type), "\(text) \(type)")
            }
            for type in ["TEXT", "VARCHAR(40)", "BLOB", "", "Clob", "REALBLOB"] {
                #expect(try isStored(decimal, in: type), "\(text) \(type)")
            }
            #expect(try isStored(decimal, in: "ANY", strict: true))
        }
        for text in ["0.1", "3.133", "-0.05", "123456789012.345", "9223372036854775807", "1000000000000000000000", "0"]
        {
            let decimal = try #require(Decimal(string: text))
            for type in ["NUMERIC", "INTEGER", "TEXT", ""] {
                #expect(try isStored(decimal, in: type), "\(text) \(type)")
            }
        }
        #expect(try isStored(#require(Decimal(string: "3.133")), in: "REAL"))
        #expect(try !isStored(#require(Decimal(string: "9223372036854775807")), in: "REAL"))
    }

    @Test("integers are stored as they are, but not by REAL where a double has too few bits")
    func integers() throws {
        for type in ["INTEGER", "NUMERIC", "BLOB", ""] {
            for value in [Int64.min, .max, 1 << 53 + 1] { #expect(try isStored(value, in: type)) }
        }
        #expect(try isStored(Int64(1) << 53, in: "REAL"))
        #expect(try isStored(Int64.min, in: "REAL"))
        #expect(try !isStored(Int64.max, in: "REAL"))
        #expect(try !isStored(Int64(1) << 53 + 1, in: "REAL"))
        #expect(try !isStored(UInt64(Int64.max), in: "REAL"))
        #expect(try !isStored(Int64(1) << 53 + 1, in: "REAL", strict: true))
    }

    // Story: SQLite made 15 digits of a double in a column of type TEXT, and the row could not be read.
    @Test("doubles are stored as they are, and by TEXT if SQLite writes all of their digits")
    func doubles() throws {
        for value in [0.1 + 0.2, .pi, .leastNonzeroMagnitude, .greatestFiniteMagnitude, -1.5, 0, 1e300] {
            for type in ["REAL", "NUMERIC", "INTEGER", ""] {
                #expect(try isStored(value, in: type), "\(value) \(type)")
            }
        }
        for value in [0.1 + 0.2, 0.7999999999999999, 1 / 3, .pi, .infinity, -.infinity, Double(Float(0.1))] {
            for type in ["TEXT", "VARCHAR(40)", "CLOB"] { #expect(try !isStored(value, in: type), "\(value) \(type)") }
        }
        for value in [1_700_000_000.125, 0.1, -0.5, 0, 1e300, 1.5e-7, 123456789012345, 1e15, 4e18] {
            try queue("TEXT").write { db in
                try Sample(id: 1, value: value).insert(db)
                #expect(try Double.fetchOne(db, sql: "SELECT CAST(value AS REAL) FROM sample WHERE id = 1") == value)
            }
        }
    }

    @Test("a text that is a number of too many digits is refused by numeric types, and every other text is stored")
    func texts() throws {
        func isAdmitted(_ text: String, _ type: String) throws -> Bool {
            try queue(type).write { db in
                do {
                    try Sample(id: 1, value: text).insert(db)
                    return true
                } catch let error as DatabaseError where error.resultCode == .SQLITE_MISMATCH {
                    return false
                }
            }
        }
        for type in ["NUMERIC", "INTEGER", "REAL"] {
            for text in ["12345678901234567890", " 1.234567890123456789 ", "1e999", "-1e-999", "1.0000000000000000001"]
            {
                #expect(try !isAdmitted(text, type), "\(text)")
            }
            for text in [
                "", " ", "word", "0x1234567890123456789", "1234567890123456789 apples", "1e", "2024-01-01 12:00:00.123",
                "12345678901234567890-1", "Infinity", ".", "0", "501", "-501", "0.05", "-0.05", "1.05", "1000000", "-",
                "1-1",
            ] { #expect(try isAdmitted(text, type), "\(text)") }
        }
        #expect(try isAdmitted("12345678901234567890", "TEXT"))
        #expect(try isAdmitted("9223372036854775807", "INTEGER"))
    }

    // Story: the code of a place, "00501", became 501, and a version, "1.10", became 1.1.
    @Test("a text that would come back without zeros, signs or spaces is refused by numeric types")
    func codes() throws {
        let codes = [
            "00501", "007", "+5", " 12 ", "12\n", "1e3", "1E3", "1.10", "1.0", "5.", ".5", "-0", "00", "0.0", "-.5",
            "0000000000000000000000001", "0e999", " 9223372036854775807 ",
        ]
        for code in codes {
            for type in ["INTEGER", "NUMERIC", "REAL", "DECIMAL(10,2)", "DATETIME", "ANY"] {
                #expect(try !isStored(code, in: type), "\(code) \(type)")
            }
            for type in ["TEXT", "VARCHAR(5)", "BLOB", ""] { #expect(try isStored(code, in: type), "\(code) \(type)") }
            #expect(try !isStored(code, in: "INTEGER", strict: true))
            #expect(try isStored(code, in: "ANY", strict: true))
        }
    }

    @Test("blobs are stored as they are")
    func blobs() throws {
        for type in ["NUMERIC", "INTEGER", "REAL", "TEXT", "BLOB"] {
            try queue(type).write { db in
                try db.execute(
                    sql: "INSERT INTO sample VALUES (1, ?)", arguments: [Data("12345678901234567890".utf8)])
                #expect(try String.fetchOne(db, sql: "SELECT typeof(value) FROM sample") == "blob")
            }
        }
    }
}
