import CipherDatabase
import Foundation
import TestKit
import Testing

/// Values of every kind come back as they went in.
@Suite struct RandomValueTests {
    let seed = Seed()
    let queue = DatabaseQueue()

    /// Sends values through a table and compares what comes back, fetched as values, as rows and from live rows.
    private func roundTrip<Value: DatabaseValueConvertible & Equatable>(
        _ make: (inout RandomNumbers) -> Value, same: (Value, Value) -> Bool = { $0 == $1 }
    ) throws {
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE v(id INTEGER PRIMARY KEY, value)")
            defer { try? db.execute(sql: "DROP TABLE v") }
            var values: [Value] = []
            for index in 0..<300 {
                var numbers = seed.numbers(index)
                values.append(make(&numbers))
                try db.execute(sql: "INSERT INTO v VALUES (?, ?)", arguments: [index, values[index]])
            }
            let fetched = try Value.fetchAll(db, sql: "SELECT value FROM v ORDER BY id")
            let rows = try Row.fetchAll(db, sql: "SELECT value FROM v ORDER BY id")
            let cursor = try Row.fetchCursor(db, sql: "SELECT value FROM v ORDER BY id")
            try #require(fetched.count == values.count && rows.count == values.count)
            for (index, value) in values.enumerated() {
                let comment: Comment = "\(seed), case \(index): \(value)"
                #expect(same(fetched[index], value), comment)
                #expect(same(rows[index]["value"], value), comment)
                let live = try #require(try cursor.next())
                #expect(same(live[0], value), comment)
            }
        }
    }

    /// A number of random magnitude: small ones and those at the ends are as likely as the others.
    private static func integer<Value: FixedWidthInteger>(_ numbers: inout RandomNumbers) -> Value {
        switch Int.random(in: 0..<8, using: &numbers) {
        case 0: Value.min
        case 1: Value(exactly: Int64.max) ?? (Value.bitWidth < 64 ? Value.max : 0)
        default:
            Value(
                truncatingIfNeeded: UInt64.random(in: 0...UInt64.max >> 1, using: &numbers)
                    >> UInt64.random(in: 0..<63, using: &numbers))
        }
    }

    @Test("integers of every width")
    func integers() throws {
        try roundTrip { Self.integer(&$0) as Int }
        try roundTrip { Self.integer(&$0) as Int8 }
        try roundTrip { Self.integer(&$0) as Int16 }
        try roundTrip { Self.integer(&$0) as Int32 }
        try roundTrip { Self.integer(&$0) as Int64 }
        try roundTrip { Self.integer(&$0) as UInt }
        try roundTrip { Self.integer(&$0) as UInt8 }
        try roundTrip { Self.integer(&$0) as UInt16 }
        try roundTrip { Self.integer(&$0) as UInt32 }
        try roundTrip { Self.integer(&$0) as UInt64 }
        try roundTrip { Bool.random(using: &$0) }
    }

    @Test("numbers with a fraction, infinities and zeros of both signs among them")
    func fractions() throws {
        try roundTrip { numbers -> Double in
            let value = Double(bitPattern: numbers.next())
            return value.isNaN ? -.infinity : value
        }
        try roundTrip { numbers -> Float in
            let value = Float(bitPattern: UInt32(truncatingIfNeeded: numbers.next()))
            return value.isNaN ? .infinity : value
        }
        try roundTrip { [0.0, -0.0, .infinity, .leastNonzeroMagnitude, 0.1].randomElement(using: &$0) ?? 0 }
        try roundTrip { numbers -> Decimal in
            Decimal(sign: .minus, exponent: -9, significand: Decimal(Int64.random(in: 0...Int64.max, using: &numbers)))
        }
    }

    @Test("texts with every letter, NUL among them, and bytes of every length")
    func textsAndBytes() throws {
        try roundTrip(
            { numbers -> String in
                var text = ""
                for _ in 0..<Int.random(in: 0..<20, using: &numbers) {
                    let scalar = Unicode.Scalar(UInt32.random(in: 0..<0x500, using: &numbers))
                    text.unicodeScalars.append(scalar ?? "😀")
                }
                return text
            }, same: { $0.unicodeScalars.elementsEqual($1.unicodeScalars) })
        try roundTrip { numbers -> Data in
            Data((0..<Int.random(in: 0..<40, using: &numbers)).map { _ in UInt8.random(in: 0...255, using: &numbers) })
        }
        try roundTrip { numbers -> UUID in
            let (left, right) = (numbers.next(), numbers.next())
            return withUnsafeBytes(of: (left, right)) { UUID(uuid: $0.load(as: uuid_t.self)) }
        }
        try roundTrip { numbers -> Int? in Bool.random(using: &numbers) ? Self.integer(&numbers) : nil }
    }

    @Test("dates of the years 1 to 9999 keep their milliseconds, and their texts sort as they do")
    func dates() throws {
        let year1 = -62_135_596_800_000 as Int64
        let year10000 = 253_402_300_800_000 as Int64
        var texts: [(Int64, String)] = []
        try roundTrip(
            { numbers -> Date in
                let milliseconds = Int64.random(in: year1..<year10000, using: &numbers)
                let date = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
                if case .string(let text) = date.databaseValue.storage { texts.append((milliseconds, text)) }
                return date
            }, same: { abs($0.timeIntervalSince($1)) < 0.0001 })
        let byTime = texts.sorted { $0.0 < $1.0 }.map(\.1)
        #expect(byTime == byTime.sorted(), "\(seed)")
        try queue.read { db in
            for (milliseconds, text) in texts {
                // SQLite's own reading of the text, in days.
                let days = try Double.fetchOne(db, sql: "SELECT julianday(?)", arguments: [text])
                let seconds = ((days ?? 0) - 2_440_587.5) * 86_400
                #expect(abs(seconds - Double(milliseconds) / 1000) < 0.002, "\(seed): \(text)")
            }
        }
    }
}
