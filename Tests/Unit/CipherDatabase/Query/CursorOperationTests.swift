import CipherDatabase
import Testing

@Suite struct CursorOperationTests {
    let queue = DatabaseQueue()

    private struct Failure: Error {}

    private func numbers(_ count: Int) -> AnyCursor<Int> { AnyCursor(1..<(count + 1)) }

    /// A cursor that fails when more than `count` elements are read.
    private func failing(after count: Int) -> AnyCursor<Int> {
        var position = 0
        return AnyCursor {
            position += 1
            if position > count { throw Failure() }
            return position
        }
    }

    @Test("cursors are cut at the front and at the end")
    func cutting() throws {
        #expect(try Array(numbers(4).dropFirst()) == [2, 3, 4])
        #expect(try Array(numbers(4).dropFirst(3)) == [4])
        #expect(try Array(numbers(4).dropFirst(9)) == [])
        #expect(try numbers(4).dropLast() == [1, 2, 3])
        #expect(try numbers(4).dropLast(9) == [])
        #expect(try Array(numbers(4).prefix(2)) == [1, 2])
        #expect(try Array(numbers(4).prefix(0)) == [])
        #expect(try Array(numbers(4).prefix { $0 < 3 }) == [1, 2])
        #expect(try Array(AnyCursor([1, 5, 1]).prefix { $0 < 3 }) == [1])
        let ended = AnyCursor([1, 5, 1]).prefix { $0 < 3 }
        #expect(try [ended.next(), ended.next(), ended.next()] == [1, nil, nil])
        #expect(try Array(AnyCursor([1, 5, 1]).drop { $0 < 3 }) == [5, 1])
        #expect(try Array(numbers(2).drop { $0 < 9 }) == [])
        for limit in 0...6 {
            #expect(try numbers(4).suffix(limit) == Array((1...4).suffix(limit)))
            #expect(try numbers(0).suffix(limit) == [])
        }
    }

    @Test("elements are found, counted and compared")
    func answers() throws {
        #expect(try numbers(3).first() == 1)
        #expect(try numbers(0).first() == nil)
        #expect(try AnyCursor([2, 3, 1]).min() == 1)
        #expect(try AnyCursor([2, 3, 1]).max() == 3)
        #expect(try numbers(0).min() == nil)
        #expect(try numbers(0).max() == nil)
        #expect(try AnyCursor(["aaa", "b"]).min { $0.count < $1.count } == "b")
        #expect(try AnyCursor(["aaa", "b"]).max { $0.count < $1.count } == "aaa")
        #expect(try numbers(3).contains(2))
        #expect(try !numbers(3).contains(4))
        #expect(try AnyCursor(["a", "b"]).joined(separator: ", ") == "a, b")
        #expect(try AnyCursor([String]()).joined() == "")
        let pairs = try Array(AnyCursor(["a", "b"]).enumerated())
        #expect(pairs.map(\.0) == [0, 1] && pairs.map(\.1) == ["a", "b"])
    }

    @Test("sequences and cursors in a cursor become one cursor")
    func flattening() throws {
        #expect(try Array(numbers(3).flatMap { 0..<$0 }) == [0, 0, 1, 0, 1, 2])
        #expect(try Array(numbers(3).flatMap { AnyCursor(0..<$0) }) == [0, 0, 1, 0, 1, 2])
        #expect(try Array(AnyCursor([[1], [], [2, 3]]).joined()) == [1, 2, 3])
        #expect(try Array([1, 2].flatMap { AnyCursor([$0, $0 * 10]) }) == [1, 10, 2, 20])
        #expect(throws: Failure.self) { try (0...1).flatMap { failing(after: $0) }.suffix(1) }
        #expect(try Array(AnyCursor([numbers(1), numbers(0), numbers(2)]).joined()) == [1, 1, 2])
    }

    @Test("nothing is read before it is asked for, and errors come where they happen")
    func laziness() throws {
        let mapped = failing(after: 2).map { $0 * 10 }
        #expect(try mapped.next() == 10)
        #expect(try mapped.next() == 20)
        #expect(throws: Failure.self) { try mapped.next() }
        _ = failing(after: 0).filter { _ in true }.compactMap { $0 }.enumerated().dropFirst().drop { _ in true }
        _ = failing(after: 0).flatMap { [$0] }.prefix(1).prefix { _ in true }
        #expect(try Array(failing(after: 2).prefix(2)) == [1, 2])
        #expect(throws: Failure.self) { try Array(numbers(3).map { if $0 == 2 { throw Failure() } }) }
        #expect(throws: Failure.self) { try numbers(3).filter { _ in throw Failure() }.next() }
        #expect(throws: Failure.self) { try failing(after: 1).suffix(2) }
    }

    @Test("collections are made of cursors")
    func collections() throws {
        #expect(try Array(numbers(3), minimumCapacity: 100).capacity >= 100)
        #expect(try Set(numbers(3), minimumCapacity: 100) == [1, 2, 3])
        #expect(try ContiguousArray(numbers(2)) == [1, 2])
        #expect(try String(AnyCursor(["a", "b"] as [Character])) == "ab")
        var array = [0]
        try array.append(contentsOf: numbers(2))
        #expect(array == [0, 1, 2])
        var set: Set = [0]
        try set.formUnion(numbers(2))
        #expect(set == [0, 1, 2])
        #expect(try Dictionary(uniqueKeysWithValues: numbers(2).map { ($0, "\($0)") }) == [1: "1", 2: "2"])
        #expect(try Dictionary(minimumCapacity: 9, uniqueKeysWithValues: numbers(1).map { ($0, 0) }) == [1: 0])
        #expect(try Dictionary(grouping: numbers(4)) { $0 % 2 } == [0: [2, 4], 1: [1, 3]])
        #expect(try Dictionary(minimumCapacity: 9, grouping: numbers(2)) { $0 } == [1: [1], 2: [2]])
    }

    // The standard library traps, for a sequence in memory. The rows of a database are data, and the call throws anyway.
    @Test("a key that comes twice is an error where keys are to be unique")
    func duplicateKeys() throws {
        func pairs() -> some Cursor<(Int, Int)> { numbers(3).map { ($0 % 2, $0) } }
        let error = #expect(throws: DatabaseError.self) { try Dictionary(uniqueKeysWithValues: pairs()) }
        #expect(error?.resultCode == .SQLITE_MISUSE && error?.message == "a key comes twice in the cursor")
        #expect(throws: DatabaseError.self) { try Dictionary(minimumCapacity: 9, uniqueKeysWithValues: pairs()) }
    }

    /// A cursor that can be read by its `forEach` alone.
    private final class Pushed: Cursor {
        func next() throws -> Int? { throw Failure() }
        func forEach(_ body: (Int) throws -> Void) throws { for number in 1...3 { try body(number) } }
    }

    // `forEach` is a requirement, so that a cursor may do around all elements what it cannot do around each: GRDB's
    // cursors open their statement there. A value made of such a cursor has to come through it.
    @Test("cursors and collections made of a cursor read it by its own forEach")
    func forwarding() throws {
        #expect(try Array(Pushed()) == [1, 2, 3])
        #expect(try Array(Pushed(), minimumCapacity: 9) == [1, 2, 3])
        #expect(try Set(Pushed()) == [1, 2, 3])
        #expect(try Array(Pushed().map { $0 * 2 }) == [2, 4, 6])
        #expect(try Array(Pushed().filter { $0 != 2 }) == [1, 3])
        #expect(try Array(Pushed().compactMap { $0 == 2 ? nil : "\($0)" }) == ["1", "3"])
        #expect(try Array(Pushed().enumerated().map { "\($0) \($1)" }) == ["0 1", "1 2", "2 3"])
        #expect(try Array(Pushed().flatMap { 0..<$0 }) == [0, 0, 1, 0, 1, 2])
        #expect(try Array(Pushed().dropFirst(2)) == [3])
        #expect(try Array(Pushed().drop { $0 < 2 }) == [2, 3])
        #expect(try Array(AnyCursor(Pushed())) == [1, 2, 3])
        #expect(try Dictionary(grouping: Pushed()) { $0 % 2 } == [0: [2], 1: [1, 3]])
        #expect(try Dictionary(uniqueKeysWithValues: Pushed().map { ($0, "\($0)") }) == [1: "1", 2: "2", 3: "3"])
    }

    @Test("forEach goes on where single steps have ended")
    func forEachAfterNext() throws {
        func afterOne<Made: Cursor>(_ cursor: Made) throws -> [Made.Element] {
            _ = try cursor.next()
            return try Array(cursor)
        }
        #expect(try afterOne(numbers(3).map { $0 * 2 }) == [4, 6])
        #expect(try afterOne(numbers(4).filter { $0 % 2 == 0 }) == [4])
        #expect(try afterOne(numbers(3).enumerated().map { $0.0 }) == [1, 2])
        #expect(try afterOne(numbers(3).flatMap { 0..<$0 }) == [0, 1, 0, 1, 2])
        #expect(try afterOne(numbers(2).flatMap { [$0, $0 + 10] }) == [11, 2, 12])
        #expect(try afterOne(numbers(4).dropFirst(2)) == [4])
        #expect(try afterOne(numbers(4).drop { $0 < 2 }) == [3, 4])
        #expect(try afterOne(AnyCursor(numbers(3))) == [2, 3])
    }

    @Test("a cursor of the database takes part in all of it, and tells what it runs")
    func databaseCursors() throws {
        try queue.read { db throws in
            let sql = "SELECT column1 AS n FROM (VALUES (3), (1), (2)) WHERE n > ?"
            let cursor = try Int.fetchCursor(db, sql: sql, arguments: [0])
            #expect(cursor.sql == sql && cursor.arguments == [0])
            #expect(cursor.columnNames == ["n"] && cursor.columnCount == 1)
            #expect(try cursor.max() == 3)
            let texts = try Row.fetchCursor(db, sql: sql, arguments: [1]).map { "\($0["n"] as Int)" }
            #expect(try texts.joined(separator: "+") == "3+2")
            let any = AnyCursor(try Int.fetchCursor(db, sql: sql, arguments: [2]))
            #expect(try any.next() == 3)
            #expect(try AnyCursor(iterator: [1].makeIterator()).next() == 1)
        }
    }
}
