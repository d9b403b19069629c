import StoreCrypto
import StorePlatform

/// Everything that a rotation needs to read pages of the present epoch and to write those of the next.
package struct RotationKeys: Sendable {
    package let storeID: StoreID
    package let current: SidecarKeys
    package let currentDataKey: DataKey
    package let currentSalt: Salt
    package let next: SidecarKeys
    package let nextDataKey: DataKey
    package let nextSalt: Salt
    package let settings: CipherSettings
    package let nextEpoch: UInt64

    /// nil when the keys do not open what the sidecar holds, or no rotation is pending.
    init?(_ sidecar: Sidecar, current: SidecarKeys, next: SidecarKeys) throws {
        guard let successor = sidecar.successor, let currentDataKey = try current.dataKey(of: sidecar),
            let nextDataKey = try next.dataKey(of: successor)
        else { return nil }
        storeID = sidecar.storeID
        self.current = current
        self.currentDataKey = currentDataKey
        currentSalt = sidecar.salt
        self.next = next
        self.nextDataKey = nextDataKey
        nextSalt = successor.salt
        settings = sidecar.settings
        nextEpoch = successor.epoch
    }

    /// The keys of a sidecar of this store by its epoch: of the present one, or of the next.
    func keys(of sidecar: Sidecar) -> SidecarKeys { sidecar.epoch < nextEpoch ? current : next }
}
