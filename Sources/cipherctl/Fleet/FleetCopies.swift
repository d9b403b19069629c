import KeyCustody
import StoreFleet
import StoreSharing

/// The stores of a fleet that have one identifier, as a store and its copies do.
///
/// A member of a group can copy a store, without a key, to another name that a pattern of the fleet matches. Its backups
/// would count as backups of the store, and push these out of the repository.
struct FleetCopies {
    /// The paths of the stores with an identifier that more than one has.
    private let groups: [[String]]

    init(_ stores: [Fleet.Store]) {
        let identified = stores.compactMap { store in
            SidecarFiles(databasePath: StorePaths(store.path).database).read().newestClaimed.map {
                (path: store.path, storeID: $0.storeID)
            }
        }
        groups = Dictionary(grouping: identified, by: \.storeID).values.filter { $0.count > 1 }.map { $0.map(\.path) }
    }

    /// - Throws: ``CommandFailure`` for a store whose identifier another one has too.
    func refuse(_ store: Fleet.Store) throws(CommandFailure) {
        guard let group = groups.first(where: { $0.contains(store.path) }),
            let other = group.first(where: { $0 != store.path })
        else { return }
        throw CommandFailure(
            .usage, "copiedStore", what: "\"\(store.path)\" was not backed up.",
            why:
                "\"\(other)\" has the same identifier: one is a copy of the other, and their backups would count as those of "
                + "one store.",
            hint:
                "Find out which is the copy and who made it. Move it out of the folder, or correct the path in the fleet "
                + "file.")
    }
}
