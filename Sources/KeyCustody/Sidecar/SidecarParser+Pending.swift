import StorePlatform

/// The records of the next epoch, in both versions of the format.
extension SidecarParser {
    /// Reads them exactly when the state says that a rotation is pending.
    mutating func pendingEpoch(of sidecar: Sidecar) throws(SidecarSyntaxError) -> PendingEpoch? {
        switch sidecar.state {
        case .creating, .ready: return nil
        case .rotating, .switching: break
        }
        try recordName("pending")
        try scanner.literal(",\"epoch\":\(sidecar.epoch + 1)")
        let created = try creation()
        try scanner.literal(",\"pages\":")
        // The number of pages is known exactly when the copy is complete.
        let allowed = sidecar.state == .rotating ? 0...0 : 1...Limits.databasePages
        let pages = try integer("pages") { allowed.contains($0) }
        let salt = try salt()
        let wrapped = try wrappedKey()
        try endOfObject("}")
        var table: SlotTable?
        if let slotted = sidecar.slotted, scanner.startsWith("{\"record\":\"pending-slot\"") {
            table = try slotRecords("pending-slot", nextID: slotted.table.nextID)
        }
        return PendingEpoch(created: created, pages: UInt32(pages), salt: salt, wrapped: wrapped, table: table)
    }
}
