import ObjectStorage

/// Objects at a server: it has one clock, no locks, and no owner of an object.
package protocol ServedObjects: ObjectStore {
    /// Reads a part of an object.
    ///
    /// - Returns: Fewer bytes where the object ends before; nil if there is no such object.
    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]?
    /// All objects whose names begin with the prefix, with the time of the server.
    func listing(_ prefix: String) throws -> ServedListing
    /// Stores an object, also under a name that is taken.
    func replace(_ name: String, _ bytes: [UInt8]) throws
    /// Removes what killed uploads have left that are older than some seconds.
    ///
    /// - Returns: How many there were.
    func removeUploads(olderThan seconds: Int) throws -> Int
    /// Whether the server has denied the right to make the call.
    func isDenied(_ error: any Error) -> Bool
}

/// The objects under a prefix.
package struct ServedListing: Sendable {
    /// An object.
    package struct Entry: Sendable {
        package let name: String
        package let byteCount: Int
        /// When it was stored, in seconds since 1970 by the clock of the server.
        package let stored: Int

        package init(name: String, byteCount: Int, stored: Int) {
            (self.name, self.byteCount, self.stored) = (name, byteCount, stored)
        }
    }

    /// The time of the server, in seconds since 1970.
    package let now: Int
    package let entries: [Entry]

    package init(now: Int, entries: [Entry]) { (self.now, self.entries) = (now, entries) }
}
