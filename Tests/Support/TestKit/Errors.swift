import StorePlatform

/// The code of the `StoreError` that `body` throws; nil when it throws none, or another error.
public func storeError(_ body: () throws -> some Any) -> StoreError.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return (error as? StoreError)?.code
    }
}
