import CipherDatabase
import Synchronization

// Containers that are lent to one record after another. Swift makes an object for the container of each record, and
// looks up its types, which takes as long as reading several columns.

/// A container that a plan lends to one record after another.
class LentContainer {
    /// The type of its coding keys.
    final let keys: ObjectIdentifier
    /// Swift's container, which is a reference to an object. Only the references to it are counted: what class it has
    /// is Swift's affair.
    final let reference: UnsafeMutablePointer<Counted>

    fileprivate init(_ keys: ObjectIdentifier, _ memory: UnsafeMutableRawPointer) {
        self.keys = keys
        reference = memory.assumingMemoryBound(to: Counted.self)
    }

    // MARK: Where containers may be lent

    /// The record types that have kept a container.
    private static let keepers = Mutex<Set<ObjectIdentifier>>([])

    /// Whether containers may be lent to a record type.
    static func isPossible(for record: any FetchableRecord.Type) -> Bool {
        countsReferences && !keepers.withLock { $0.contains(ObjectIdentifier(record)) }
    }

    static func stopLending(to record: any FetchableRecord.Type) {
        keepers.withLock { _ = $0.insert(ObjectIdentifier(record)) }
    }

    /// Whether Swift's container is a reference to one object, as it is in Swift 6: then the references to the object are
    /// counted to find out whether a program has kept it.
    private static let countsReferences: Bool = {
        typealias Container = KeyedDecodingContainer<ColumnKey>
        guard MemoryLayout<Container>.size == MemoryLayout<AnyObject>.size else { return false }
        let context = RowContext(row: Row(), plan: .separate(AnyRecord.self), columns: nil, codingPath: [])
        let lent = LentKeyedContainer(ColumnKey.self, context)
        // The compiler may release a container or a copy after its last use.
        return withExtendedLifetime(lent) {
            guard isKnownUniquelyReferenced(&lent.reference.pointee) else { return false }
            return withExtendedLifetime(lent.copy()) { !isKnownUniquelyReferenced(&lent.reference.pointee) }
        }
    }()

    /// Stands for the class of an object whose references are counted.
    final class Counted {}

    /// A record type of no table.
    private struct AnyRecord: FetchableRecord {
        init(row: Row) {}
    }
}

/// A container of coding keys of one type.
///
/// Generic in Swift's type of it, and not in the type of the keys: a method of it has that type at hand, where others
/// look it up.
final class LentKeyedContainer<Container>: LentContainer {
    private let container: UnsafeMutablePointer<Container>

    /// - Parameter context: It stays for as long as this container.
    init<Key: CodingKey>(_ type: Key.Type, _ context: RowContext) where Container == KeyedDecodingContainer<Key> {
        container = .allocate(capacity: 1)
        container.initialize(
            to: KeyedDecodingContainer(LentRowContainer<Key>(context: Unmanaged.passUnretained(context))))
        super.init(ObjectIdentifier(type), UnsafeMutableRawPointer(container))
    }

    deinit {
        container.deinitialize(count: 1)
        container.deallocate()
    }

    @inline(never)
    func copy() -> Container { container.pointee }
}
