/// A place that keeps bytes under names and decides nothing: a remote of sync, or a repository of backups.
///
/// Nothing is assumed of it. A call may fail after it was done, an object may be damaged, missing, or come back, and a
/// listing may be old.
package protocol ObjectStore: Sendable {
    /// For errors and reports.
    var description: String { get }
    /// Stores an object unless the name is taken. It is durable when the call returns.
    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome
    /// - Parameter limitBytes: Longer objects are returned up to this length and one byte more.
    /// - Returns: nil if there is no such object.
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]?
    /// All objects whose names begin with the prefix, in any order.
    func list(_ prefix: String) throws -> [ListedObject]
    /// Removes an object. An object that is not there is no error.
    func delete(_ name: String) throws
}

/// An error of a remote that knows whether the remote has refused a call for good.
package protocol ObjectStoreError: Error {
    /// Whether this user may not make the call, and another one may.
    var isRefusal: Bool { get }
}

package enum PutOutcome: Hashable, Sendable {
    case stored
    /// The name is taken, by any bytes.
    case alreadyPresent
}

package struct ListedObject: Hashable, Sendable {
    package let name: String
    /// nil where it costs another call for each object.
    package let byteCount: Int?

    package init(name: String, byteCount: Int?) {
        self.name = name
        self.byteCount = byteCount
    }
}
