/// Decides which of some rows are shown, and with which values (F13).
///
/// NOT NULL and CHECK come first. Then there are rounds: of rows with one unique value the oldest wins; a child without a shown
/// parent follows ON DELETE; what is hidden by this leaves, and a changed value stays changed. Each round removes a row or
/// changes a value, so the rounds end.
///
/// Limits: foreign keys from or to generated columns hide no row. A unique index with a condition on a row id that is no key
/// hides other rows on each device.
struct Rounds {
    struct Outcome {
        var shown: [RowPlace: [CellValue]] = [:]
        var hidden: [RowPlace: HiddenReason] = [:]
        /// Rows that were not there in some round.
        var absent: Set<RowPlace> = []
        /// The values that each row had in any round.
        var variants: [RowPlace: [[CellValue]]] = [:]
    }

    private struct UniqueValue: Hashable {
        let table: Int64
        let key: Int
        let form: [UInt8]
    }

    let catalog: Catalog
    let links: Links
    /// Why a table does not take values by itself.
    let refusal: (RowPlace, [CellValue]) throws -> HiddenReason?
    /// Whether a row outside of those that are decided has the value that a child refers to.
    let hasParentOutside: (Reference, [CellValue], [UInt8]) throws -> Bool

    private var outcome = Outcome()
    /// How many rows have a unique value. While orphans are removed there may be two.
    private var present: [UniqueValue: Int] = [:]

    init(
        catalog: Catalog, links: Links, refusal: @escaping (RowPlace, [CellValue]) throws -> HiddenReason?,
        hasParentOutside: @escaping (Reference, [CellValue], [UInt8]) throws -> Bool
    ) {
        (self.catalog, self.links) = (catalog, links)
        (self.refusal, self.hasParentOutside) = (refusal, hasParentOutside)
    }

    /// - Parameter candidates: By age.
    mutating func run(_ candidates: [Candidate]) throws -> Outcome {
        outcome = Outcome()
        var remaining: [Candidate] = []
        for candidate in candidates {
            outcome.variants[candidate.place] = [candidate.values]
            if let reason = try refusal(candidate.place, candidate.values) {
                outcome.hidden[candidate.place] = reason
                outcome.absent.insert(candidate.place)
            } else {
                remaining.append(candidate)
            }
        }
        while true {
            outcome.hidden = outcome.hidden.filter { $0.value != .unique }
            var winners = try self.winners(of: remaining)
            let (gone, isChanged) = try removeOrphans(&winners)
            if gone.isEmpty && !isChanged {
                for winner in winners { outcome.shown[winner.place] = winner.values }
                return outcome
            }
            var changed: [RowPlace: [CellValue]] = [:]
            for winner in winners { changed[winner.place] = winner.values }
            remaining.removeAll { gone.contains($0.place) }
            for place in remaining.indices {
                if let values = changed[remaining[place].place] { remaining[place].values = values }
            }
        }
    }

    // MARK: Unique values

    private mutating func winners(of candidates: [Candidate]) throws -> [Candidate] {
        var winners: [Candidate] = []
        present = [:]
        for candidate in candidates {
            let values = try links.uniqueForms(candidate.place.table, candidate.values).map {
                UniqueValue(table: candidate.place.table, key: $0.key, form: $0.form)
            }
            if values.contains(where: { present[$0] != nil }) {
                outcome.hidden[candidate.place] = .unique
                outcome.absent.insert(candidate.place)
                continue
            }
            for value in values { present[value] = 1 }
            winners.append(candidate)
        }
        return winners
    }

    /// Takes the unique values of a row out of those that children find, or back in.
    private mutating func setPresent(_ isPresent: Bool, _ candidate: Candidate) throws {
        for (key, form) in try links.uniqueForms(candidate.place.table, candidate.values) {
            let value = UniqueValue(table: candidate.place.table, key: key, form: form)
            let count = (present[value] ?? 0) + (isPresent ? 1 : -1)
            present[value] = count > 0 ? count : nil
        }
    }

    // MARK: Parents

    private mutating func removeOrphans(_ winners: inout [Candidate]) throws -> (gone: Set<RowPlace>, isChanged: Bool) {
        var (gone, isChanged, again) = (Set<RowPlace>(), false, true)
        while again {
            again = false
            for place in winners.indices where !gone.contains(winners[place].place) {
                guard let reference = try missingParent(of: winners[place]) else { continue }
                again = true
                try setPresent(false, winners[place])
                if try followOnDelete(&winners[place], reference) {
                    isChanged = true
                    outcome.variants[winners[place].place, default: []].append(winners[place].values)
                    try setPresent(true, winners[place])
                } else {
                    outcome.variants[winners[place].place, default: []].append(winners[place].values)
                    outcome.hidden[winners[place].place] = .foreignKey
                    outcome.absent.insert(winners[place].place)
                    gone.insert(winners[place].place)
                }
            }
        }
        winners.removeAll { gone.contains($0.place) }
        return (gone, isChanged)
    }

    private func missingParent(of candidate: Candidate) throws -> Reference? {
        for (reference, form) in try links.parentForms(candidate.place.table, candidate.values) {
            let value = UniqueValue(table: reference.parent, key: reference.target, form: form)
            if present[value] != nil { continue }
            let values = reference.columns.map { candidate.values[$0] }
            if try !hasParentOutside(reference, values, form) { return reference }
        }
        return nil
    }

    /// Changes the shown row as ON DELETE says.
    ///
    /// - Returns: Whether the row can still be shown.
    private func followOnDelete(_ candidate: inout Candidate, _ reference: Reference) throws -> Bool {
        guard let table = try catalog.table(candidate.place.table).local,
            Set(reference.columns).isDisjoint(with: table.keyColumns)
        else { return false }
        let columns = reference.columns.map { table.columns[$0] }
        switch reference.onDelete {
        case .setNull where !columns.contains(where: \.isNotNull):
            for column in reference.columns { candidate.values[column] = .null }
        case .setDefault where reference.columns.map({ candidate.values[$0] }) != columns.map(\.defaultValue):
            for column in reference.columns { candidate.values[column] = table.columns[column].defaultValue }
        default: return false
        }
        return try refusal(candidate.place, candidate.values) == nil
    }
}
