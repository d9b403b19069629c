/// Records the newest generation of the sidecar in the store itself, so that a former copy is detected.
///
/// **The recorded generation is never above the durable one.** It is recorded after both copies are durable. A crash in
/// between leaves too low a number, which refuses no sidecar.
package protocol SidecarRollbackGuard: Sendable {
    /// Makes a change of the keys, and records its generation.
    ///
    /// A generation that cannot be recorded does not stop a change: the removal of a secret has priority.
    /// - Parameters:
    ///   - removesSecrets: Whether the change removes a secret. Nothing is recorded before the first change that does.
    ///   - present: The sidecar as it is now.
    ///   - change: Makes the change, and returns the new version, durable in both copies.
    /// - Throws: `StoreError` `sidecarRolledBack` before anything is changed; what `change` throws.
    func remembering(removesSecrets: Bool, present: () throws -> Sidecar, _ change: () throws -> Sidecar) throws
}
