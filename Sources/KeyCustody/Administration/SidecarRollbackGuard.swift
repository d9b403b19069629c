/// What remembers, inside of a store, how far its sidecar has come, so that former copies of it are noticed.
///
/// **Never more than is durable.** A version is remembered behind both of its copies, so a crash between leaves too low a
/// number, which refuses nobody.
package protocol SidecarRollbackGuard: Sendable {
    /// Makes a change of the keys, and remembers it.
    ///
    /// Nothing that cannot be remembered stops a change: taking a secret away comes first.
    /// - Parameters:
    ///   - removesSecrets: Whether the change takes a secret away. Before the first of these nothing is remembered.
    ///   - present: The sidecar as it is now.
    ///   - change: Makes the change, and returns the new version, durable in both copies.
    /// - Throws: `StoreError` `sidecarRolledBack` before anything is changed; what `change` throws.
    func remembering(removesSecrets: Bool, present: () throws -> Sidecar, _ change: () throws -> Sidecar) throws
}
