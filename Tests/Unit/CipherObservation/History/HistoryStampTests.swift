import Foundation
import Testing

@testable import CipherDatabase

/// The stamps of transactions, and the triggers as a function of the table.
@Suite struct HistoryStampTests {
    @Test("a stamp has a time and an author, and no other number is one")
    func stamps() throws {
        let stamp = HistoryStamp(time: 123_456_789, author: 77)
        #expect(HistoryStamp(stamp.number) == stamp)
        #expect(HistoryStamp(0) == nil && HistoryStamp(-5) == nil)
        #expect(HistoryStamp(time: -4, author: 1).time == 1)
        let seconds = 1_800_000_000.25
        let time = HistoryStamp.time(ofSeconds: seconds)
        #expect(HistoryStamp(time: time, author: 0).seconds == seconds)
        #expect(HistoryStamp.time(ofSeconds: -1e300) == 0 && HistoryStamp.time(ofSeconds: 1e300) > 0)
    }

    @Test("transactions that follow each other have different times, whatever the clock does")
    func clock() {
        var clock = HistoryClock()
        func next(_ now: Int64, commits: Bool = true) -> Int64 {
            let time = clock.time(now: now)
            #expect(clock.time(now: now + 50) == time)
            clock.transactionDidEnd(committing: commits)
            return time
        }
        #expect(next(100_000) == 100_000)
        #expect(next(100_000) == 100_001)
        #expect(next(99_000) == 100_002)
        // Set back by far: the times follow.
        #expect(next(1_000) == 1_000)
        #expect(next(1_000) == 1_001)
        // Rolled back in between.
        #expect(next(500_000) == 500_000)
        #expect(next(1_500, commits: false) == 1_500)
        #expect(next(500_000) == 500_001)
        // Beyond the last time that a stamp has.
        let last = HistoryStamp(time: .max, author: 1).time
        #expect((1...4).map { _ in next(.max) } == [last, last - 1, last, last - 1])
    }

    @Test("tables without other unique indexes need no lookups")
    func plainTriggers() {
        let facts = TableFacts(name: "t", columns: [.init(name: "id")], key: ["id"], isRowID: true, rowIDName: "rowid")
        let definition = HistoryUpkeep.definition(facts, notesColumns: false, kept: [])
        let names = HistoryTriggers(id: 3, facts: facts, definition: definition).all.map(\.name)
        #expect(Set(names) == HistoryTriggers.essential(3))
    }

    @Test("names are quoted, and updates of other columns look nothing up")
    func quotedNames() throws {
        let index = TableFacts.UniqueIndex(
            items: [.init(sql: "\"a \"\"b\"", isColumn: true, collation: "NOCASE")], condition: "c > 0",
            columns: ["a \"b", "c"])
        let facts = TableFacts(
            name: "my \"t", columns: [.init(name: "a \"b"), .init(name: "c"), .init(name: "k")], key: ["k"],
            isRowID: false, rowIDName: nil, uniqueIndexes: [index])
        let definition = HistoryUpkeep.definition(facts, notesColumns: true, kept: [])
        let all = HistoryTriggers(id: 4, facts: facts, definition: definition).all
        let displace = try #require(all.first { $0.name.hasSuffix("displace") }?.definition)
        #expect(displace.contains(#"BEFORE UPDATE OF "a ""b", "c" ON "my ""t" BEGIN"#))
        #expect(displace.contains(#""my ""t"."a ""b" COLLATE "NOCASE" = NEW."a ""b" AND (c > 0)"#))
    }
}
