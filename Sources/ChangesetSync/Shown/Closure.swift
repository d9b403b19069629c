import CipherDatabase

/// The rows that have to be decided together: those that were touched, and all that they can affect.
///
/// It begins with the touched rows. It adds each row that has a unique value of one of them, and each child whose parent was
/// hidden in some round; ``Links`` has the rows in the table `aside`. No row outside depends on one inside, so the rounds
/// inside give what rounds over all rows would give.
struct Closure {
    let base: Base
    let links: Links
    let writer: RowWriter
    private(set) var places: [RowPlace] = []
    private(set) var inside: Set<RowPlace> = []
    private var candidates: [RowPlace: Candidate] = [:]
    private var refusals: [RowPlace: [[CellValue]: HiddenReason?]] = [:]
    /// The keys that were looked up, so that none is looked up again.
    private var lookups: Set<Lookup> = []
    private var meetings: Set<RowPlace> = []

    private struct Lookup: Hashable {
        let table: Int64
        let kind: Int
        let key: Int
        let form: [UInt8]
    }

    init(_ base: Base, _ links: Links, _ writer: RowWriter, of places: [RowPlace]) {
        (self.base, self.links, self.writer) = (base, links, writer)
        for place in places { add(place) }
    }

    private mutating func add(_ place: RowPlace) { if inside.insert(place).inserted { places.append(place) } }

    /// Decides the rows.
    mutating func settle() throws -> (Rounds.Outcome, [RowPlace: Candidate]) {
        while true {
            for place in places where candidates[place] == nil {
                candidates[place] = try Candidate(
                    place, base.state(place), base.catalog.table(place.table), base.index)
            }
            let outcome = try decide()
            let count = places.count
            for place in places.prefix(count) { try extend(from: place, outcome) }
            if places.count == count { return (outcome, candidates) }
        }
    }

    private mutating func decide() throws -> Rounds.Outcome {
        let (base, inside, writer) = (self.base, self.inside, self.writer)
        var known = refusals
        var rounds = Rounds(
            catalog: base.catalog, links: links,
            refusal: { place, values in
                if let reason = known[place]?[values] { return reason }
                guard let table = try base.catalog.table(place.table).local else { return .unknownTable }
                let reason = try table.convertsKey(of: values) ? .type : writer.refusal(of: values, by: table)
                known[place, default: [:]].updateValue(reason, forKey: values)
                return reason
            },
            hasParentOutside: { reference, values, _ in
                guard let table = try base.catalog.table(reference.parent).local else { return true }
                return try writer.keys(
                    of: table, having: values, in: reference.parentColumns, reference.comparison
                ).contains { !inside.contains(RowPlace(table: reference.parent, key: $0)) }
            })
        let (catalog, index) = (base.catalog, base.index)
        let outcome = try rounds.run(
            candidates.values.sorted { one, other in try one.precedes(other, catalog, index) })
        refusals = known
        return outcome
    }

    // MARK: Extending

    private mutating func extend(from place: RowPlace, _ outcome: Rounds.Outcome) throws {
        let table = try base.catalog.table(place.table)
        guard let definition = table.local else { return }
        let former = try base.formerRow(place)
        if try base.wasAside(place), meetings.insert(place).inserted {
            for other in try links.rowsMeeting(place) { add(other) }
        }
        let isAbsent = outcome.absent.contains(place) || candidates[place] == nil
        let variants = outcome.variants[place] ?? []
        for values in variants {
            try addCompetitors(place.table, definition, values)
            for (reference, form) in try links.parentForms(place.table, values) {
                try addLinked(parentsOf: reference, form)
            }
        }
        if let former { try addWaiting(place.table, former) }
        for reference in links.references.ofParent[place.table] ?? [] {
            let key = { (values: [CellValue]) in reference.parentColumns.map { values[$0] } }
            for values in variants + (former.map { [$0] } ?? []) {
                guard let form = try reference.comparison.form(key(values), in: base.db) else { continue }
                if take(Lookup(table: reference.parent, kind: 2, key: reference.target, form: form)) {
                    for child in try links.children(of: reference.parent, key: reference.target, form) { add(child) }
                }
                let shown = try outcome.shown[place].map { try reference.comparison.form(key($0), in: base.db) }
                guard isAbsent || shown != form else { continue }
                try addChildren(of: reference, key(values), form)
            }
        }
    }

    private mutating func take(_ lookup: Lookup) -> Bool { lookups.insert(lookup).inserted }

    /// Rows that have a unique value of a row inside.
    private mutating func addCompetitors(
        _ table: Int64, _ definition: TableDefinition, _ values: [CellValue]
    ) throws {
        for (key, form) in try links.uniqueForms(table, values) {
            guard take(Lookup(table: table, kind: 0, key: key, form: form)) else { continue }
            for other in try links.rows(of: table, key: key, form) { add(other) }
            guard key != Reference.rowID else { continue }
            let unique = definition.uniqueKeys[key]
            guard let sought = try links.uniqueValues(unique, definition, values) else { continue }
            for other in try writer.keys(of: definition, having: sought, in: unique) {
                add(RowPlace(table: table, key: other))
            }
        }
    }

    /// Rows aside that wait for a unique value that a row had.
    private mutating func addWaiting(_ table: Int64, _ values: [CellValue]) throws {
        for (key, form) in try links.uniqueForms(table, values)
        where take(Lookup(table: table, kind: 1, key: key, form: form)) {
            for other in try links.rows(of: table, key: key, form) { add(other) }
        }
    }

    private mutating func addLinked(parentsOf reference: Reference, _ form: [UInt8]) throws {
        guard take(Lookup(table: reference.parent, kind: 1, key: reference.target, form: form)) else { return }
        for parent in try links.rows(of: reference.parent, key: reference.target, form) { add(parent) }
    }

    /// Quiet children of a value that was not there in some round.
    private mutating func addChildren(of reference: Reference, _ values: [CellValue], _ form: [UInt8]) throws {
        let lookup = Lookup(
            table: reference.child, kind: 3 + (reference.columns.first ?? 0), key: reference.target, form: form)
        guard take(lookup), let table = try base.catalog.table(reference.child).local else { return }
        for child in try writer.keys(of: table, having: values, in: reference.columns, nil) {
            add(RowPlace(table: reference.child, key: child))
        }
    }
}
