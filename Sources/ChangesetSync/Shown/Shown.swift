import CipherDatabase

/// Brings the program's tables in line with the base: they show a function of the base, the local schema and its constraints.
///
/// Most rows are written as they are, and SQLite finds nothing wrong with them. The others, and all that they can affect, are
/// decided by ``Rounds``.
struct Shown {
    let base: Base
    let links: Links
    let writer: RowWriter

    init(_ base: Base) {
        self.base = base
        links = Links(db: base.db, catalog: base.catalog, references: References(base.catalog))
        writer = RowWriter(base.db)
    }

    /// Shows and stores all rows that were touched.
    func update() throws {
        let hasLinks = try links.hasAny()
        var (difficult, simple) = ([RowPlace](), [RowPlace]())
        for place in base.takeDirty() {
            let table = try base.catalog.table(place.table)
            if table.local == nil {
                let isAside = try !base.state(place).rows.isEmpty
                try base.store(place, isAside ? .aside(.unknownTable) : .plain)
            } else if try writePlain(place, table, hasLinks) {
                simple.append(place)
            } else {
                difficult.append(place)
            }
        }
        // Parents may have come after their children.
        var plain: [RowPlace] = []
        for place in simple {
            if try hasParents(place, hasLinks) { plain.append(place) } else { difficult.append(place) }
        }
        if !difficult.isEmpty {
            let decided = try decide(difficult)
            plain.removeAll { decided.contains($0) }
        }
        for place in plain { try base.store(place, .plain) }
        try base.stored.flush()
    }

    // MARK: Simple rows

    /// Writes a row as the base has it.
    ///
    /// - Returns: Whether it was taken, and no row aside and no child depends on it.
    private func writePlain(_ place: RowPlace, _ table: BaseTable, _ hasLinks: Bool) throws -> Bool {
        guard let definition = table.local, try !base.wasAside(place) else { return false }
        let state = try base.state(place)
        let present = try base.presentRow(place)
        let former = try base.formerRow(place)
        guard !state.rows.isEmpty else {
            if let former, try isNeeded(place, former, hasLinks) { return false }
            if present != nil { _ = try delete(place, from: definition) }
            return true
        }
        guard let candidate = try Candidate(place, state, table, base.index), !candidate.isComposed,
            !candidate.isConverted, !Candidate.hasOtherKey(place, state, table)
        else { return false }
        do {
            try write(candidate.values, over: present, place, definition)
        } catch let error as DatabaseError {
            _ = try RowWriter.reason(error)
            return false
        }
        try base.setPresentRow(place, candidate.values)
        if hasLinks, try isLinked(place, candidate.values) { return false }
        guard let former, former != candidate.values else { return true }
        return try !isNeeded(place, former, hasLinks, beside: candidate.values)
    }

    private func write(
        _ values: [CellValue], over present: [CellValue]?, _ place: RowPlace, _ table: TableDefinition
    ) throws {
        guard let present else { return try writer.insert(values, into: table) }
        let changes = values.indices.filter { values[$0] != present[$0] }.map { (column: $0, value: values[$0]) }
        if !changes.isEmpty { try writer.update(place.key, changes, in: table) }
    }

    /// Whether a row aside has a unique value of the row, or refers to it.
    private func isLinked(_ place: RowPlace, _ values: [CellValue]) throws -> Bool {
        for (key, form) in try links.uniqueForms(place.table, values) {
            if try !links.rows(of: place.table, key: key, form).isEmpty { return true }
        }
        for reference in links.references.ofParent[place.table] ?? [] {
            let key = reference.parentColumns.map { values[$0] }
            guard let form = try reference.comparison.form(key, in: base.db) else { continue }
            if try !links.children(of: place.table, key: reference.target, form).isEmpty { return true }
        }
        return false
    }

    /// Whether other rows depend on values that a row had.
    ///
    /// - Parameter values: What the row has now; nil if it is gone.
    private func isNeeded(
        _ place: RowPlace, _ former: [CellValue], _ hasLinks: Bool, beside values: [CellValue]? = nil
    ) throws -> Bool {
        if hasLinks, try isLinked(place, former) { return true }
        for reference in links.references.ofParent[place.table] ?? [] {
            let key = reference.parentColumns.map { former[$0] }
            if key.contains(where: \.isNull) { continue }
            if let values, reference.parentColumns.map({ values[$0] }) == key { continue }
            guard let child = try base.catalog.table(reference.child).local else { continue }
            if try !writer.keys(of: child, having: key, in: reference.columns, nil).isEmpty { return true }
        }
        return false
    }

    private func hasParents(_ place: RowPlace, _ hasLinks: Bool) throws -> Bool {
        guard let references = links.references.ofChild[place.table], let values = try base.presentRow(place) else {
            return true
        }
        for reference in references {
            guard let form = try links.parentForm(reference, values) else { continue }
            guard let parent = try base.catalog.table(reference.parent).local else { continue }
            let sought = reference.columns.map { values[$0] }
            let keys = try writer.keys(
                of: parent, having: sought, in: reference.parentColumns, reference.comparison)
            if keys.isEmpty { return false }
            if hasLinks, try !links.rows(of: reference.parent, key: reference.target, form).isEmpty { return false }
        }
        return true
    }

    /// Deletes a row of the program's table.
    ///
    /// - Returns: Whether it could. If an expression of the table fails, the row stays. The next opening of the repository tries
    ///   it again.
    private func delete(_ place: RowPlace, from table: TableDefinition) throws -> Bool {
        do {
            try writer.delete(place.key, from: table)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            try base.catalog.noteRetry(.deletedRows, of: place.table)
            return false
        }
        try base.setPresentRow(place, nil)
        return true
    }

    // MARK: Rows that depend on others

    private func decide(_ places: [RowPlace]) throws -> Set<RowPlace> {
        var closure = Closure(base, links, writer, of: places)
        let (outcome, candidates) = try closure.settle()
        var failed: Set<RowPlace> = []
        try show(closure.places, outcome.shown, &failed)
        for place in closure.places {
            let isHidden = outcome.hidden[place]
            let reason: HiddenReason? =
                if try Candidate.hasOtherKey(
                    place, base.state(place), base.catalog.table(place.table))
                {
                    .otherKey
                } else if let isHidden {
                    isHidden
                } else if failed.contains(place) {
                    .unique
                } else if let candidate = candidates[place] {
                    reasonToKeepAside(candidate, outcome)
                } else {
                    try base.state(place).rows.isEmpty ? nil : .type
                }
            try base.store(place, reason.map { .aside($0) } ?? .plain)
            if reason == .expression { try base.catalog.noteRetry(.hiddenRows, of: place.table) }
            try links.remove(place)
            guard let reason, reason != .composed else { continue }
            var variants = outcome.variants[place] ?? []
            if let shown = outcome.shown[place], !variants.contains(shown) { variants.append(shown) }
            try links.add(place, variants)
        }
        return closure.inside
    }

    private func reasonToKeepAside(_ candidate: Candidate, _ outcome: Rounds.Outcome) -> HiddenReason? {
        if outcome.absent.contains(candidate.place) { return .contested }
        if candidate.isConverted || outcome.shown[candidate.place] != candidate.values { return .altered }
        return candidate.isComposed ? .composed : nil
    }

    /// Writes the decided rows. A row may have to wait until another one has left a unique value.
    private func show(_ places: [RowPlace], _ shown: [RowPlace: [CellValue]], _ failed: inout Set<RowPlace>) throws {
        for place in places where shown[place] == nil {
            guard try base.presentRow(place) != nil, let table = try base.catalog.table(place.table).local else {
                continue
            }
            _ = try delete(place, from: table)
        }
        var waiting = places.filter { shown[$0] != nil }
        while !waiting.isEmpty {
            var others: [RowPlace] = []
            for place in waiting where try !write(place, shown[place] ?? []) { others.append(place) }
            if others.count == waiting.count {
                // Rows that were updated make room for each other.
                let rows = try others.filter { try base.presentRow($0) != nil }
                guard !rows.isEmpty else {
                    failed.formUnion(others)
                    return
                }
                let deleted = try rows.filter { place in
                    guard let table = try base.catalog.table(place.table).local else { return false }
                    return try delete(place, from: table)
                }
                if deleted.isEmpty {
                    failed.formUnion(others)
                    return
                }
            }
            waiting = others
        }
    }

    private func write(_ place: RowPlace, _ values: [CellValue]) throws -> Bool {
        guard let table = try base.catalog.table(place.table).local else { return false }
        do {
            try write(values, over: base.presentRow(place), place, table)
        } catch let error as DatabaseError {
            _ = try RowWriter.reason(error)
            return false
        }
        try base.setPresentRow(place, values)
        return true
    }
}
