/// Decodes the items of a snapshot, which may be damaged or hostile.
///
/// It refuses a number without an item, an order that joining does not expect, and bytes after an item.
struct SnapshotDecoder: Sendable {
    private enum Stage: Sendable { case start, names, keys }

    private var stage = Stage.start
    private var authors: Int64 = 0
    private var commits: Int64 = 0
    private var tables: [Name] = []
    /// The table of each column.
    private var columns: [Int64] = []
    private var vectors: Int64 = 0
    private var last: (table: Name, key: RowKey)?

    /// Whether the state was read: a snapshot without it is none.
    var isComplete: Bool { stage == .keys }

    /// - Throws: ``CommitError``
    mutating func decode(_ bytes: ArraySlice<UInt8>) throws(CommitError) -> SnapshotItem {
        var reader = ByteReader(bytes)
        let byte = try reader.byte()
        guard let kind = SnapshotItem.Kind(rawValue: byte) else { throw reader.error(.unknownKind(byte)) }
        guard isExpected(kind) else { throw reader.error(.malformedReference) }
        let item = try decode(kind, &reader)
        guard reader.isAtEnd else { throw reader.error(.trailingBytes) }
        return item
    }

    private func isExpected(_ kind: SnapshotItem.Kind) -> Bool {
        switch kind {
        case .head: stage == .start
        case .author, .commit, .table, .column, .policy, .dropped, .state: stage == .names
        case .vector: stage != .start
        case .key: stage == .keys
        }
    }

    private mutating func decode(
        _ kind: SnapshotItem.Kind, _ reader: inout ByteReader
    ) throws(CommitError) -> SnapshotItem {
        switch kind {
        case .head:
            let version = try reader.byte()
            guard version == SnapshotItem.version else { throw reader.error(.unsupportedVersion(version)) }
            stage = .names
            return .head(time: try reader.time())
        case .author:
            authors += 1
            return .author(try reader.identifier(ReplicaID.self))
        case .commit: return .commit(try commit(&reader))
        case .table:
            let name = try Self.name(reader.take(reader.remaining), reader)
            guard tables.last.map({ $0 < name }) ?? true else { throw reader.error(.contextOrder) }
            tables.append(name)
            return .table(name)
        case .column:
            let table = try number(&reader, upTo: Int64(tables.count))
            let reuse = UInt32(try reader.count(limit: Int(UInt32.max)))
            columns.append(table)
            return .column(
                table: table, ColumnID(try Self.name(reader.take(reader.remaining), reader), reuse: reuse))
        case .policy: return .policy(try policy(&reader))
        case .dropped: return .dropped(try dropped(&reader))
        case .vector:
            vectors += 1
            return .vector(try numbers(&reader, upTo: commits))
        case .state:
            stage = .keys
            return .state(
                SnapshotItem.State(
                    vector: try number(&reader, upTo: vectors), contexts: try known(&reader, upTo: commits),
                    removed: try known(&reader, upTo: authors)))
        case .key: return .key(try key(&reader))
        }
    }

    private static func name(_ bytes: ArraySlice<UInt8>, _ reader: ByteReader) throws(CommitError) -> Name {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw reader.error(.notUTF8) }
        guard (1...CommitLimits.nameBytes).contains(bytes.count), !bytes.contains(0) else { throw reader.error(.name) }
        return Name(text)
    }

    private mutating func commit(_ reader: inout ByteReader) throws(CommitError) -> SnapshotItem.NamedCommit {
        let author = try number(&reader, upTo: authors)
        let number = try reader.varint()
        guard (1...UInt64(Int64.max)).contains(number) else { throw reader.error(.number) }
        let parent = try reader.varint()
        guard parent <= UInt64(commits) else { throw reader.error(.malformedReference) }
        let flag = try reader.byte()
        guard flag <= 1 else { throw reader.error(.unknownFlags(flag)) }
        let time = try reader.time()
        let hash = try reader.identifier(CommitHash.self)
        commits += 1
        return SnapshotItem.NamedCommit(
            author: author, number: number, hash: hash, parent: Int64(parent), time: time, beginsBranch: flag == 1)
    }

    private func policy(_ reader: inout ByteReader) throws(CommitError) -> SnapshotItem.Policy {
        let table = try number(&reader, upTo: Int64(tables.count))
        let commit = try reader.varint()
        guard commit <= UInt64(commits) else { throw reader.error(.malformedReference) }
        let flag = try reader.byte()
        guard flag <= 1 else { throw reader.error(.unknownFlags(flag)) }
        var counters: [Int64] = []
        for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
            let start = reader
            let column = try column(&reader, of: table)
            guard counters.last.map({ $0 < column }) ?? true else { throw start.error(.contextOrder) }
            counters.append(column)
        }
        return SnapshotItem.Policy(
            table: table, commit: Int64(commit), deletionsWin: flag == 1, counters: counters)
    }

    private func dropped(_ reader: inout ByteReader) throws(CommitError) -> SnapshotItem.Dropped {
        let table = try number(&reader, upTo: Int64(tables.count))
        let start = reader
        let isTable = try reader.varint() == 0
        if !isTable { reader = start }
        let column = try isTable ? 0 : column(&reader, of: table)
        let commit = try number(&reader, upTo: commits)
        let flag = try reader.byte()
        guard flag <= 1 else { throw reader.error(.unknownFlags(flag)) }
        return SnapshotItem.Dropped(table: table, column: column, commit: commit, isDropped: flag == 1)
    }

    // MARK: Numbers

    private func number(_ reader: inout ByteReader, upTo last: Int64) throws(CommitError) -> Int64 {
        let start = reader
        let number = try reader.varint()
        guard number >= 1, number <= UInt64(last) else { throw start.error(.malformedReference) }
        return Int64(number)
    }

    private func numbers(_ reader: inout ByteReader, upTo last: Int64) throws(CommitError) -> [Int64] {
        var found: [Int64] = []
        for _ in 0..<(try reader.count(limit: reader.remaining)) { found.append(try number(&reader, upTo: last)) }
        return found
    }

    private func known(
        _ reader: inout ByteReader, upTo last: Int64
    ) throws(CommitError) -> [SnapshotItem.State.Known] {
        var found: [SnapshotItem.State.Known] = []
        for _ in 0..<(try reader.count(limit: reader.remaining)) {
            found.append(
                .init(of: try number(&reader, upTo: last), vector: try number(&reader, upTo: vectors)))
        }
        return found
    }

    // MARK: Keys

    private mutating func key(_ reader: inout ByteReader) throws(CommitError) -> SnapshotItem.Key {
        let start = reader
        let table = try number(&reader, upTo: Int64(tables.count))
        var values: [CellValue] = []
        for _ in 0..<(try reader.count(limit: CommitLimits.keyColumns)) { values.append(try value(&reader)) }
        let (key, name) = (RowKey(values), tables[Int(table) - 1])
        guard !values.isEmpty, last.map({ $0.table < name || $0.table == name && $0.key < key }) ?? true else {
            throw start.error(.contextOrder)
        }
        last = (name, key)
        var (rows, dead) = ([SnapshotItem.Key.Living](), [SnapshotItem.Key.Dead]())
        for _ in 0..<(try reader.count(limit: reader.remaining)) {
            let incarnation = try number(&reader, upTo: commits)
            rows.append(.init(incarnation: incarnation, row: try row(&reader, of: table)))
        }
        for _ in 0..<(try reader.count(limit: reader.remaining)) { dead.append(try self.dead(&reader, of: table)) }
        guard zip(rows, rows.dropFirst()).allSatisfy({ $0.incarnation < $1.incarnation }),
            zip(dead, dead.dropFirst()).allSatisfy({ $0.incarnation < $1.incarnation })
        else { throw start.error(.contextOrder) }
        return SnapshotItem.Key(table: table, key: key, rows: rows, dead: dead)
    }

    private func value(_ reader: inout ByteReader) throws(CommitError) -> CellValue {
        CellReader.value(of: try reader.cell())
    }

    private func column(_ reader: inout ByteReader, of table: Int64) throws(CommitError) -> Int64 {
        let start = reader
        let column = try number(&reader, upTo: Int64(columns.count))
        guard columns[Int(column) - 1] == table else { throw start.error(.malformedReference) }
        return column
    }

    private func stamp(_ reader: inout ByteReader) throws(CommitError) -> LocalStamp {
        let era = UInt32(try reader.count(limit: Int(UInt32.max)))
        return LocalStamp(era: era, commit: try number(&reader, upTo: commits))
    }

    private func signed(_ reader: inout ByteReader) throws(CommitError) -> Int64 {
        let raw = try reader.varint()
        return Int64(bitPattern: raw >> 1) ^ -Int64(raw & 1)
    }

    private func row(_ reader: inout ByteReader, of table: Int64) throws(CommitError) -> BaseRow {
        var row = BaseRow(born: try stamp(&reader))
        for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
            let column = try column(&reader, of: table)
            let stamp = try stamp(&reader)
            if reader.skipUnknownCell() {
                row.unknown[column] = stamp
            } else {
                row.cells[column] = BaseRow.BaseCell(stamp: stamp, value: try value(&reader))
            }
        }
        for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
            let column = try column(&reader, of: table)
            for _ in 0..<(try reader.count(limit: reader.remaining)) {
                let source = BaseRow.Source(
                    origin: try number(&reader, upTo: commits), branch: try number(&reader, upTo: commits))
                row.sums[column, default: [:]][source] = BaseRow.Sum(
                    last: try number(&reader, upTo: commits), total: try signed(&reader))
            }
        }
        return row
    }

    private func dead(_ reader: inout ByteReader, of table: Int64) throws(CommitError) -> SnapshotItem.Key.Dead {
        let incarnation = try number(&reader, upTo: commits)
        let known = try number(&reader, upTo: vectors)
        var detail = ByteReader(try reader.take(reader.count(limit: reader.remaining)))
        let tombstone = try tombstone(&detail, of: table)
        guard detail.isAtEnd else { throw detail.error(.trailingBytes) }
        return SnapshotItem.Key.Dead(incarnation: incarnation, known: known, tombstone: tombstone)
    }

    private func tombstone(_ reader: inout ByteReader, of table: Int64) throws(CommitError) -> Tombstone {
        var short = reader
        if let deletion = try? number(&short, upTo: commits), short.isAtEnd {
            reader = short
            return Tombstone(seen: [deletion])
        }
        guard try reader.varint() == 0 else { throw reader.error(.malformedReference) }
        var tombstone = Tombstone(seen: Set(try numbers(&reader, upTo: commits)))
        tombstone.owed = Set(try numbers(&reader, upTo: commits))
        for _ in 0..<(try reader.count(limit: reader.remaining)) {
            var write = BaseWrite(stamp: try stamp(&reader), cells: [], steps: [])
            for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
                write.cells.append((try column(&reader, of: table), try value(&reader)))
            }
            for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
                write.steps.append((try column(&reader, of: table), try signed(&reader)))
            }
            tombstone.late.append(write)
        }
        let flag = try reader.byte()
        guard flag <= 1 else { throw reader.error(.unknownFlags(flag)) }
        if flag == 1 { tombstone.row = try row(&reader, of: table) }
        return tombstone
    }
}
