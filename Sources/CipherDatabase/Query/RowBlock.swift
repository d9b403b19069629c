import Foundation

/// The values of some kept rows, one row after the other, in their own memory.
///
/// Rows of one result share blocks, so that a row costs no more than its object and a few bytes. A block is freed with
/// the last of its rows; ``DatabaseLimits/rowBlockBytes`` bounds the memory that a single kept row keeps alive. A block does
/// not change once its rows are stored: several threads may use them.
final class RowBlock: RowSource {
    /// Rows are at the beginning, and what is too long for them at the end.
    private let memory: UnsafeMutableRawPointer
    /// The position of the next row's values, counted from the beginning.
    // Unchecked: one thread fills a block, and the runtime's check of each value would cost more than the value.
    @exclusivity(unchecked) private var nextRow = 0
    /// The end of the row that is being stored.
    @exclusivity(unchecked) private var rowEnd = 0
    /// The beginning of what is stored at the end.
    @exclusivity(unchecked) private var farStart: Int
    @exclusivity(unchecked) private var boxes: [UnsafeMutablePointer<DatabaseValue>] = []
    private let byteCount: Int

    init(columns: RowColumns, byteCount: Int) {
        self.byteCount = byteCount
        memory = .allocate(byteCount: byteCount, alignment: 1)
        farStart = byteCount
        super.init(columns: columns)
    }

    /// A block of one row.
    convenience init(_ values: [DatabaseValue], columns: RowColumns) {
        self.init(columns: columns, byteCount: values.count * (StoredValue.byteCount + 8))
        rowEnd = values.count * StoredValue.byteCount
        // There is space: none of these takes more than 8 bytes elsewhere.
        for (index, value) in values.enumerated() {
            _ = store(value, at: memory + index * StoredValue.byteCount)
        }
        nextRow = rowEnd
    }

    deinit {
        for box in boxes {
            box.deinitialize(count: 1)
            box.deallocate()
        }
        memory.deallocate()
    }

    var isEmpty: Bool { nextRow == 0 }

    /// The address of the first row's values.
    var firstRow: UnsafeRawPointer { UnsafeRawPointer(memory) }

    /// Adds the current row of a statement.
    /// - Returns: The row; nil when there is no space for it.
    @inline(__always)
    func append(_ statement: StatementHandle) -> Row? {
        appendValues(of: statement).map { Row($0, of: self) }
    }

    /// Adds the values of the current row of a statement.
    /// - Returns: Their address; nil when there is no space for them.
    @inline(__always)
    func appendValues(of statement: StatementHandle) -> UnsafeRawPointer? {
        let place = memory + nextRow
        rowEnd = nextRow &+ columns.count &* StoredValue.byteCount
        guard rowEnd <= farStart, statement.storeColumns(columns.count, at: place, in: self) else { return nil }
        nextRow = rowEnd
        return UnsafeRawPointer(place)
    }

    /// Replaces the only row of the block by the current row of a statement.
    /// - Returns: Whether there was space for it. Long values are not replaced: their memory is to be freed.
    func refill(from statement: StatementHandle) -> Bool {
        guard boxes.isEmpty, byteCount <= DatabaseLimits.sharedValueBytes else { return false }
        farStart = byteCount
        rowEnd = columns.count &* StoredValue.byteCount
        return rowEnd <= farStart && statement.storeColumns(columns.count, at: memory, in: self)
    }

    /// Adds the current row and those that follow, while there is space.
    /// - Returns: Whether these were the last rows; otherwise there was no space for the current one.
    func append(_ steps: inout StatementSteps, to rows: inout [Row]) throws -> Bool {
        repeat {
            guard let row = append(steps.handle) else { return false }
            rows.append(row)
        } while try steps.advance()
        return true
    }

    // MARK: Values

    @inline(__always)
    func store(small number: Int32, at place: UnsafeMutableRawPointer) { _ = store(.small, number, at: place) }

    // Each of these returns false when there is no space.

    func storeNull(at place: UnsafeMutableRawPointer) -> Bool { store(.null, 0, at: place) }

    func store(_ number: Int64, at place: UnsafeMutableRawPointer) -> Bool {
        Int32(exactly: number).map { store(.small, $0, at: place) } ?? store(.integer, far: number, at: place)
    }

    func store(_ number: Double, at place: UnsafeMutableRawPointer) -> Bool { store(.real, far: number, at: place) }

    func store(text bytes: UnsafeRawBufferPointer, at place: UnsafeMutableRawPointer) -> Bool {
        // Long ones become Swift values at once, which are not copied each time they are read.
        bytes.count > DatabaseLimits.sharedValueBytes
            ? store(box: DatabaseValue(.string(String(decoding: bytes, as: UTF8.self))), at: place)
            : store(.text, bytes, at: place)
    }

    func store(blob bytes: UnsafeRawBufferPointer, at place: UnsafeMutableRawPointer) -> Bool {
        bytes.count > DatabaseLimits.sharedValueBytes
            ? store(box: DatabaseValue(.blob(Data(copying: bytes))), at: place) : store(.blob, bytes, at: place)
    }

    private func store(_ value: DatabaseValue, at place: UnsafeMutableRawPointer) -> Bool {
        // The stand-in of a value that could not be encoded must not become NULL.
        if value.isUnencodable { return store(box: value, at: place) }
        return switch value.storage {
        case .null: storeNull(at: place)
        case .int64(let number): store(number, at: place)
        case .double(let number): store(number, at: place)
        case .string, .blob: store(box: value, at: place)
        }
    }

    private func store(box value: DatabaseValue, at place: UnsafeMutableRawPointer) -> Bool {
        let box = UnsafeMutablePointer<DatabaseValue>.allocate(capacity: 1)
        box.initialize(to: value)
        boxes.append(box)
        return store(.boxed, far: UnsafePointer(box), at: place)
    }

    private func store(
        _ kind: StoredValue.Kind, _ bytes: UnsafeRawBufferPointer, at place: UnsafeMutableRawPointer
    ) -> Bool {
        guard let far = takeFar(4 + bytes.count) else { return false }
        far.storeBytes(of: Int32(truncatingIfNeeded: bytes.count), as: Int32.self)
        if let start = bytes.baseAddress { (far + 4).copyMemory(from: start, byteCount: bytes.count) }
        return store(kind, Int32(truncatingIfNeeded: far - place), at: place)
    }

    private func store<Value: BitwiseCopyable>(
        _ kind: StoredValue.Kind, far value: Value, at place: UnsafeMutableRawPointer
    ) -> Bool {
        guard let far = takeFar(MemoryLayout<Value>.size) else { return false }
        far.storeBytes(of: value, as: Value.self)
        return store(kind, Int32(truncatingIfNeeded: far - place), at: place)
    }

    @inline(__always)
    private func store(_ kind: StoredValue.Kind, _ word: Int32, at place: UnsafeMutableRawPointer) -> Bool {
        place.storeBytes(of: kind, as: StoredValue.Kind.self)
        place.storeBytes(of: word, toByteOffset: 1, as: Int32.self)
        return true
    }

    private func takeFar(_ byteCount: Int) -> UnsafeMutableRawPointer? {
        guard farStart - byteCount >= rowEnd else { return nil }
        farStart -= byteCount
        return memory + farStart
    }
}

/// Keeps the rows of a result, in blocks that grow with their number.
struct RowKeeper {
    private let columns: RowColumns
    private var byteCount: Int
    private(set) var block: RowBlock

    /// - Parameter columns: Those of the statement after its first step.
    init(columns: RowColumns) {
        self.columns = columns
        // Few results have more than one or two rows: the first block is for those.
        byteCount = max(64, columns.count * 4 * StoredValue.byteCount)
        block = RowBlock(columns: columns, byteCount: byteCount)
    }

    /// Keeps the current row of a statement.
    mutating func keep(_ statement: StatementHandle) -> Row {
        while true {
            if let row = block.append(statement) { return row }
            addBlock()
        }
    }

    /// Keeps the current row and all that follow.
    mutating func keepAll(_ steps: inout StatementSteps) throws -> [Row] {
        var rows: [Row] = []
        while try !block.append(&steps, to: &rows) { addBlock() }
        return rows
    }

    mutating func addBlock() {
        // Larger than the bound only where a single row needs it.
        byteCount = block.isEmpty ? byteCount * 4 : min(byteCount * 4, max(byteCount, DatabaseLimits.rowBlockBytes))
        block = RowBlock(columns: columns, byteCount: byteCount)
    }
}
