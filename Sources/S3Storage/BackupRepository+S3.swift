#if S3
    import StoreBackups

    extension BackupRepository {
        /// Opens a repository at object storage, or creates it.
        ///
        /// - Parameter isCreating: Whether a repository is made under the prefix, where there must be no other object; one
        ///   that is there is opened.
        /// - Throws: ``S3Error``; as `init(openingAt:)` and `init(creatingAt:)`; errors of the source of credentials.
        public init(at address: S3Address, _ options: S3Options, creating isCreating: Bool = false) throws {
            let place = ObjectPlace(try S3ObjectStore(address, options))
            if isCreating { try self.init(creatingIn: place) } else { try self.init(opening: place) }
        }
    }
#endif
