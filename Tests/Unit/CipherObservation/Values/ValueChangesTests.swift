import CipherDatabase
import CipherObservation
import CipherRecords
import Testing

/// The difference between two values.
@Suite struct ValueChangesTests {
    private struct Card: Codable, Equatable, Identifiable, FetchableRecord, PersistableRecord {
        var id: Int64
        var deck: Int
        var text: String
    }

    /// A record whose key has two columns, and which is not identifiable.
    private struct Place: Codable, Equatable, FetchableRecord, PersistableRecord {
        var row: Int
        var seat: Int
        var name: String?
    }

    private struct Nameless: Codable, Equatable, FetchableRecord, PersistableRecord {
        static let databaseTableName = "place"
        var name: String?
    }

    private func database() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE card (id INTEGER PRIMARY KEY, deck INTEGER, text TEXT);
                    CREATE TABLE place ("row" INTEGER, seat INTEGER, name TEXT, PRIMARY KEY ("row", seat)) WITHOUT ROWID;
                    """)
        }
        return queue
    }

    private func start<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>, _ queue: DatabaseQueue, _ errors: Collected<String> = Collected()
    ) -> (Collected<Reducer.Value>, AnyDatabaseCancellable) {
        let values = Collected<Reducer.Value>()
        let delivery = observation.start(
            in: queue, scheduling: .async(onQueue: .global()), onError: { errors.add("\($0)") },
            onChange: { values.add($0) })
        return (values, delivery)
    }

    @Test("records are compared by their primary key")
    func primaryKey() throws {
        let queue = try database()
        try queue.write { db in try Place(row: 1, seat: 1, name: "Ann").insert(db) }
        let request = Place.order(Column("row"), Column("seat"))
        let (values, cancellable) = start(ValueObservation.trackingChanges(of: request), queue)
        values.wait { $0.count == 1 }
        #expect(values.all[0].added == [Place(row: 1, seat: 1, name: "Ann")] && values.all[0].removed == [])
        try queue.write { db in
            try Place(row: 1, seat: 2, name: "Ben").insert(db)
            try Place(row: 1, seat: 1, name: "Zoe").update(db)
        }
        values.wait { $0.count == 2 }
        let second = values.all[1]
        #expect(second.added.map(\.name) == ["Ben"])
        #expect(second.updated.map(\.former.name) == ["Ann"] && second.updated.map(\.current.name) == ["Zoe"])
        #expect(second.elements.count == 2 && !second.isEmpty && !second.isReordered)
        // Nothing is left of these.
        try queue.write { try $0.execute(sql: "UPDATE place SET name = name") }
        try queue.write { try $0.execute(sql: "DELETE FROM place WHERE seat = 1") }
        values.wait { $0.count == 3 }
        #expect(values.all[2].removed.map(\.name) == ["Zoe"] && values.all[2].added == [])
        cancellable.cancel()
    }

    @Test("a record that does not encode its key cannot be compared, which the error says")
    func missingKey() throws {
        let queue = try database()
        try queue.write { db in try Place(row: 1, seat: 1, name: nil).insert(db) }
        let errors = Collected<String>()
        let (values, cancellable) = start(ValueObservation.trackingChanges(of: Nameless.all()), queue, errors)
        errors.wait { !$0.isEmpty }
        #expect(errors.all.first?.contains(#"the column "row" of the primary key of "place""#) == true)
        #expect(values.all.isEmpty)
        cancellable.cancel()
    }

    @Test("identities and keys of the program serve as well, and an order that changes is reported")
    func keys() throws {
        let queue = try database()
        try queue.write { db in
            try Card(id: 1, deck: 1, text: "a").insert(db)
            try Card(id: 2, deck: 2, text: "b").insert(db)
        }
        let cards = ValueObservation.tracking { try Card.order(Column("deck")).fetchAll($0) }
        let (byID, firstEnd) = start(cards.changes(), queue)
        let (byText, secondEnd) = start(cards.changes { $0.text }, queue)
        byID.wait { $0.count == 1 }
        byText.wait { $0.count == 1 }
        try queue.write { try $0.execute(sql: "UPDATE card SET deck = 3 - deck") }
        byID.wait { $0.count == 2 }
        byText.wait { $0.count == 2 }
        #expect(byID.all[1].isReordered && byID.all[1].updated.map(\.current.id) == [2, 1])
        try queue.write { try $0.execute(sql: "UPDATE card SET text = text || '!' WHERE id = 1") }
        byID.wait { $0.count == 3 }
        byText.wait { $0.count == 3 }
        #expect(byID.all[2].updated.count == 1 && byID.all[2].added == [])
        #expect(byText.all[2].updated == [] && byText.all[2].added.map(\.text) == ["a!"])
        #expect(byText.all[2].removed.map(\.text) == ["a"])
        firstEnd.cancel()
        secondEnd.cancel()
    }

    @Test("of several elements with one key the first belongs to the former first")
    func repeatedKeys() {
        let former = [Card(id: 1, deck: 1, text: "a"), Card(id: 1, deck: 1, text: "b")]
        let current = [
            Card(id: 1, deck: 1, text: "a"), Card(id: 1, deck: 1, text: "c"), Card(id: 1, deck: 1, text: "d"),
        ]
        let changes = ValueChanges(from: former, to: current)
        #expect(changes.updated.map(\.former.text) == ["b"] && changes.updated.map(\.current.text) == ["c"])
        #expect(changes.added.map(\.text) == ["d"] && changes.removed == [])
        #expect(ValueChanges(from: current, to: former).removed.map(\.text) == ["d"])
        #expect(ValueChanges(from: current, to: current).isEmpty)
    }

    @Test("random edits: each change leads from one list to the next", arguments: [UInt64.random(in: 0...UInt64.max)])
    func randomEdits(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let queue = try database()
        let request = Card.order(Column("deck"), Column("id"))
        let (values, cancellable) = start(ValueObservation.trackingChanges(of: request), queue)
        var lists: [[Card]] = [[]]
        var model: [Int64: Card] = [:]
        for _ in 1...300 {
            try queue.write { db in
                for _ in 1...Int.random(in: 1...4, using: &random) {
                    let card = Card(
                        id: Int64.random(in: 1...12, using: &random), deck: Int.random(in: 1...3, using: &random),
                        text: ["a", "b", "c"].randomElement(using: &random) ?? "a")
                    switch Int.random(in: 0...2, using: &random) {
                    case 0: model[card.id] = try Card.deleteOne(db, key: card.id) ? nil : model[card.id]
                    default:
                        try card.save(db)
                        model[card.id] = card
                    }
                }
            }
            let list = model.values.sorted { ($0.deck, $0.id) < ($1.deck, $1.id) }
            if list != lists.last { lists.append(list) }
        }
        values.wait { $0.last?.elements == lists.last && $0.count == lists.count }
        #expect(values.all.map(\.elements) == lists, "seed \(seed)")
        var held: [Int64: Card] = [:]
        for changes in values.all {
            for card in changes.removed { #expect(held.removeValue(forKey: card.id) == card, "seed \(seed)") }
            for card in changes.added { #expect(held.updateValue(card, forKey: card.id) == nil, "seed \(seed)") }
            for update in changes.updated {
                #expect(update.former != update.current && update.former.id == update.current.id, "seed \(seed)")
                #expect(held.updateValue(update.current, forKey: update.current.id) == update.former, "seed \(seed)")
            }
            #expect(held == Dictionary(uniqueKeysWithValues: changes.elements.map { ($0.id, $0) }), "seed \(seed)")
        }
        cancellable.cancel()
    }
}
