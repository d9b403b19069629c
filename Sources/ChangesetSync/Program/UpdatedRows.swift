import CipherDatabase

/// Plain rows of a table with a row id that the program has updated, by ascending keys: they go from the table into the
/// bytes of the commit, and need no ``KeyState``.
///
/// | step | what it does |
/// |---|---|
/// | ``read(_:)`` | compares each row with the former one and encodes the update; it writes nothing |
/// | ``store(_:)`` | writes the stamps, with the number of the commit |
private struct UpdatedRows {
    /// A set of changed columns, which many rows share.
    private struct Change {
        let shape: WriteShape
        /// The places of the shape's columns in a row, and their numbers, in the order of the shape.
        let places: [Int]
        let columns: [Int64]
        /// The changed places.
        let changed: Set<Int>
    }

    private struct Updated {
        let key: Int64
        let change: Int
        let era: UInt32
        let stamps: PlainStamps
    }

    private(set) var encoder: WritesEncoder<[UInt8]>
    private let work: Work
    private let table: BaseTable
    private let definition: TableDefinition
    private let next: Work.NextCommit
    private let author: ReplicaID
    private let plainRows: PlainRows
    private let reader: PresentRows
    private var updated: [Updated] = []
    private var changes: [Change] = []
    /// By the changed places as bits.
    private var changesOfMasks: [UInt64: Int] = [:]
    private var incarnations: [Int64: Dot] = [:]
    private var shapes: [Int64: Set<Int64>] = [:]
    /// Reused for each row.
    private var cells: [UInt8] = []
    private var starts: (old: [Int], new: [Int]) = ([], [])

    /// The most columns of a table: a set of changed ones is 64 bits.
    static let mostColumns = 64

    init(_ work: Work, _ touched: Capture.Touched, _ next: Work.NextCommit) throws {
        (self.work, table, definition, self.next) = (work, touched.table, touched.definition, next)
        author = try work.index.authorID(work.state.author)
        encoder = WritesEncoder(author: author, into: [])
        plainRows = work.base.stored.plainRows(table)
        reader = PresentRows(definition, work.db, isUTF16: try work.db.storesTextsInUTF16())
    }

    // MARK: Reading

    /// Reads the rows with the keys of `former`.
    ///
    /// - Returns: Whether all of them are there and plain. If not, nothing of the encoder counts.
    mutating func read(_ former: [RowKey: [UInt8]?]) throws -> Bool {
        let keys = former.keys.compactMap(\.rowID).sorted()
        guard keys.count == former.count, let first = keys.first, let last = keys.last else { return false }
        let key = definition.quoted(definition.keyColumns[0])
        let columns = definition.columns.indices.map { "t.\(definition.quoted($0))" }.joined(separator: ", ")
        let statement = try work.db.cachedStatement(
            sql: """
                SELECT \(columns), (SELECT stamps FROM \(EngineTables.row(table.n, isRowID: definition.isRowID)) WHERE key = t.\(key))
                FROM \(definition.qualifiedName) AS t WHERE t.\(key) BETWEEN ? AND ? ORDER BY t.\(key)
                """)
        // A few other rows in between cost less than a query for each row.
        let isDense = UInt64(bitPattern: last &- first) / 4 < UInt64(keys.count)
        var (place, isPlain) = (0, true)
        for range in isDense ? [first...last] : keys.map({ $0...$0 }) {
            try statement.setExactArguments([.integer(range.lowerBound), .integer(range.upperBound)])
            try statement.forEachLentRow { row in
                guard isPlain, place < keys.count, case .integer(let number) = row[definition.keyColumns[0]],
                    number == keys[place]
                else { return }
                place += 1
                guard let old = former[RowKey(number)] ?? nil else { return isPlain = false }
                isPlain = try read(number, old[...], row)
            }
            if !isPlain { return false }
        }
        return place == keys.count
    }

    private mutating func read(_ key: Int64, _ old: ArraySlice<UInt8>, _ row: LentRow) throws -> Bool {
        cells.removeAll(keepingCapacity: true)
        starts.new.removeAll(keepingCapacity: true)
        for place in definition.columns.indices {
            starts.new.append(cells.count)
            try reader.append(row, place, to: &cells)
        }
        starts.new.append(cells.count)
        if ByteOrder.areEqual(old, cells[...]) { return true }
        guard let mask = changedPlaces(old) else { return false }
        let own: [UInt8]? = if case .blob(let bytes) = row[definition.columns.count] { Array(bytes) } else { nil }
        guard let stamps = try plainRows.stamps(of: key, own: own) else { return false }
        let number = try changeNumber(mask)
        let change = changes[number]
        if change.columns.isEmpty { return true }
        let era = try era(stamps, change.columns)
        let incarnation = try dot(stamps.incarnation)
        let (bytes, starts) = (cells, starts.new)
        try encoder.appendUpdate(change.shape, of: incarnation, era: era) { sink in
            sink.append(integerCell: key)
        } values: { sink in
            for place in change.places { sink.append(contentsOf: bytes[starts[place]..<starts[place + 1]]) }
        }
        updated.append(Updated(key: key, change: number, era: era, stamps: stamps))
        return true
    }

    /// - Returns: The changed places as bits; nil if the former row is not one of this table.
    private mutating func changedPlaces(_ old: ArraySlice<UInt8>) -> UInt64? {
        var (mask, start) = (UInt64(0), old.startIndex)
        for place in definition.columns.indices {
            guard let end = CellReader.end(of: old, at: start) else { return nil }
            let new = cells[starts.new[place]..<starts.new[place + 1]]
            if !ByteOrder.areEqual(old[start..<end], new) { mask |= 1 << UInt64(place) }
            start = end
        }
        return start == old.endIndex ? mask : nil
    }

    private mutating func changeNumber(_ mask: UInt64) throws -> Int {
        if let known = changesOfMasks[mask] { return known }
        let changed = Set(definition.columns.indices.filter { mask >> UInt64($0) & 1 == 1 })
        let columns = definition.checkGroup(of: changed).compactMap { place in
            table.columnsOfPlaces[place].map { (place: place, column: $0) }
        }.sorted { $0.column.id < $1.column.id }
        changes.append(
            Change(
                shape: WriteShape(.update, table.name, keyCount: 1, columns: columns.map(\.column.id)),
                places: columns.map(\.place), columns: columns.map(\.column.n), changed: changed))
        changesOfMasks[mask] = changes.count - 1
        return changes.count - 1
    }

    /// The least era in which the update is above every cell that it replaces (F1, F19).
    private mutating func era(_ stamps: PlainStamps, _ columns: [Int64]) throws -> UInt32 {
        var era: UInt32 = 0
        for column in columns {
            let stamp: LocalStamp
            if let other = stamps.others[column] {
                stamp = other
            } else if try shape(stamps.shape).contains(column) {
                stamp = stamps.insertion
            } else {
                continue
            }
            let entry = try work.index.entry(stamp.commit)
            let isLater = (entry.time, entry.authorID, entry.number) > (next.time, author, next.number)
            era = max(era, isLater && stamp.era < .max ? stamp.era + 1 : stamp.era)
        }
        return era
    }

    private mutating func shape(_ n: Int64) throws -> Set<Int64> {
        if let known = shapes[n] { return known }
        let columns = Set(try work.catalog.columns(ofShape: n))
        shapes[n] = columns
        return columns
    }

    private mutating func dot(_ n: Int64) throws -> Dot {
        if let known = incarnations[n] { return known }
        let dot = try work.translator.dot(n, in: work.state.vector)
        incarnations[n] = dot
        return dot
    }

    // MARK: Writing

    var isEmpty: Bool { updated.isEmpty }

    /// Stores the stamps of the updated cells.
    func store(_ n: Int64) throws {
        for row in updated {
            var stamps = row.stamps
            let stamp = LocalStamp(era: row.era, commit: n)
            for column in changes[row.change].columns { stamps.others[column] = stamp }
            try plainRows.set(stamps, of: RowKey(row.key), isNew: false)
        }
    }

    func note(_ history: ShownHistory) throws {
        for row in updated { try history.noteUpdated(table.n, row.key, changed: changes[row.change].changed) }
    }
}

extension Work {
    /// Records updates of plain rows of one table.
    ///
    /// - Returns: Whether it could, and the commit; nil if nothing has changed.
    func recordUpdates(
        _ touched: Capture.Touched, _ meta: String
    ) throws -> (isRecorded: Bool, commit: EncodedCommit?) {
        guard try canBePlain(touched) else { return (false, nil) }
        let next = try nextCommit()
        var rows = try UpdatedRows(self, touched, next)
        guard try rows.read(touched.former.others) else { return (false, nil) }
        if rows.isEmpty { return (true, nil) }
        if !recordedTables.contains(touched.table.n) { try rows.note(history) }
        return (true, try commit(next, Writes(rows.encoder), meta: meta) { try rows.store($0) })
    }

    /// Whether no row of the table can be hidden, dead or shown otherwise, so that an update changes stamps alone.
    private func canBePlain(_ touched: Capture.Touched) throws -> Bool {
        let table = touched.table
        guard touched.definition.isRowID, touched.definition.columns.count <= UpdatedRows.mostColumns,
            !table.hasCounters, references.ofChild[table.n] == nil, references.ofParent[table.n] == nil,
            state.ahead.isEmpty, !base.isInWork(table.n), try !hasLinks()
        else { return false }
        for name in [EngineTables.aside, EngineTables.grave] where try base.stored.has(name, table.n) { return false }
        return true
    }
}
