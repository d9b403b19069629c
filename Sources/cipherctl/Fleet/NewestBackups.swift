import ServicePlatform
import StoreFleet
import StorePlatform
import StoreTools

/// When the newest backup of each store was made, according to the repositories of the fleet.
struct NewestBackups {
    /// By place: the times by store identifier, in seconds since 1970; nil for a place that cannot be read.
    private var places: [String: [String: UInt64]?] = [:]

    init(_ fleet: Fleet, _ programs: FleetPrograms) {
        let names = Set(fleet.stores.compactMap(\.settings.backupPlace)).sorted()
        var places: [String: [String: UInt64]?] = [:]
        try? programs.run(names, timeLimit: FleetOptions.checkLimit, { ["backup", "list", $0, "--json"] }) {
            place, outcome in
            places[place] = .some(Self.times(outcome))
        }
        self.places = places
    }

    private static func times(_ outcome: ConcurrentPrograms.Outcome) -> [String: UInt64]? {
        let result = FleetResult("", outcome)
        guard result.failure == nil, let backups = result.members["backups"] as? [[String: Any]] else { return nil }
        var times: [String: UInt64] = [:]
        // One that another user may have written proves nothing.
        for backup in backups where backup["unproven"] as? Bool == false {
            guard let store = backup["store_id"] as? String, let created = backup["created"] as? Int else { continue }
            times[store] = max(times[store] ?? 0, UInt64(clamping: created))
        }
        return times
    }

    /// Seconds since the newest backup of a store in its place; nil where there is none, or it is not known.
    func age(of store: Fleet.Store, id: String, now: UInt64 = WallClock.secondsSince1970) -> UInt64? {
        guard let place = store.settings.backupPlace, let made = places[place]??[id] else { return nil }
        return now > made ? now - made : 0
    }

    /// The fault of the backups of a store in its place, as a sentence; nil for none.
    func finding(on store: Fleet.Store, _ result: FleetResult) -> String? {
        guard let place = store.settings.backupPlace, result.failure == nil else { return nil }
        guard let bound = store.settings.maxBackupAge.flatMap(AgeText.seconds) else { return nil }
        guard let times = places[place] ?? nil else { return "the place of its backups, \"\(place)\", cannot be read" }
        guard let id = result.members["store_id"] as? String else {
            return "its identifier is not known, so its backups are not"
        }
        guard times[id] != nil, let age = age(of: store, id: id) else {
            return "there is no backup of it in \"\(place)\""
        }
        guard age > bound else { return nil }
        return
            "its newest backup in \"\(place)\" is \(AgeText.text(age)) old, and at most \(AgeText.text(bound)) is allowed"
    }
}
