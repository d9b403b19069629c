#if PostgreSQL
    import ChangesetSync

    /// The names that a repository has at the server, as the last call found them. It does no I/O.
    ///
    /// A call adds the names that are new since a position. The number of the names and their fingerprint show whether that
    /// is all: otherwise names were removed, or the server was set back, and all names are read again.
    struct ObjectListing {
        /// From this position on the next call asks for new names.
        private(set) var position: Int64 = 0
        private(set) var objects: [ListedObject] = []
        private var names: Set<String> = []
        private var fingerprint: Int64 = 0

        /// - Parameter mark: The number that the server has for the name.
        mutating func add(_ name: String, mark: Int64) {
            guard names.insert(name).inserted else { return }
            fingerprint ^= mark
            objects.append(ListedObject(name: name, byteCount: nil))
        }

        mutating func advance(to position: Int64) { self.position = position }

        func has(_ count: Int64, fingerprint: Int64) -> Bool {
            count == Int64(objects.count) && fingerprint == self.fingerprint
        }
    }
#endif
