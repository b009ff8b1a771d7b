// Package planted breaks the rule "answers": a proxy's page removes a record.
package planted

import apierrors "k8s.io/apimachinery/pkg/api/errors"

func gone(err error) bool { return apierrors.IsNotFound(err) }

var exists = apierrors.IsAlreadyExists
